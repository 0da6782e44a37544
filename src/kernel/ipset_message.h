// What is said about sets over netlink, without a socket. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel/ipset.h"
#include "kernel/netlink.h"

namespace kernel {

// The entry as a set of that type has it.
void put_entry(nlmsghdr* header, SetType type, const SetEntry& entry);

// One message of an answer that lists sets. What is not in it is empty: the kind of a set is only in the first of the
// messages about it.
struct SetListing {
  std::string name;
  std::string type;  // "hash:ip"
  std::optional<net::Family> family;
  uint32_t references = 0;
};
SetListing decode_set(const nlmsghdr& message);

// The members that are listed in this message, but for those that a SetEntry cannot express (other protocols).
std::vector<SetEntry> decode_members(const nlmsghdr& message, SetType type);

}  // namespace kernel
