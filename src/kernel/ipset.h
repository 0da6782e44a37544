// Sets of netfilter (ipset), over netlink.
//
// Blocks; used on a sync thread and by one-shot commands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/netlink.h"

namespace kernel {

class Ipset {
 public:
  // Unsupported if this kernel has no sets; Permission if we may not ask.
  static base::Result<Ipset> open();

  struct Set {
    std::string name;
    uint32_t references = 0;  // by rules, and by sets of sets
  };
  // All sets of this network namespace, without their members.
  base::Result<std::vector<Set>> list();

  // Removes a set with all its members. NotFound if there is none of that name; Busy while a rule uses it, which
  // iptables-nft may let it do for some milliseconds after the rule is gone: the kernel frees rules later.
  base::Result<> destroy(const std::string& name);

 private:
  Ipset(netlink::Conversation conversation, uint8_t protocol)
      : conversation_(std::move(conversation)), protocol_(protocol) {}

  // A message of the set subsystem up to the attributes of its own.
  nlmsghdr* begin(netlink::Message& message, uint8_t command, uint16_t flags) const;
  uint32_t references_of(const std::string& name);

  netlink::Conversation conversation_;
  uint8_t protocol_ = 0;  // the version that the kernel and we understand
};

}  // namespace kernel
