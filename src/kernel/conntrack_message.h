// What is said about tracked connections over netlink, without a socket. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "kernel/netlink.h"
#include "net/flow.h"

namespace kernel {

struct TrackedFlow {
  net::Flow flow;
  // The kernel's own, byte for byte: tells an entry from a later one with the same addresses and ports.
  uint32_t id = 0;

  bool operator==(const TrackedFlow&) const = default;
};

// An entry as the kernel tells of it. Nothing for what we have no business with: other protocols, zones other than
// the default one (they belong to whoever made them, such as a virtual switch), and entries that are not whole.
std::optional<TrackedFlow> decode_flow(const nlmsghdr& message);

// Asks for all entries of a family, or for those of one protocol, which kernels since 5.8 pick by themselves. Older
// ones show them all.
netlink::Message dump_request(net::Family family, std::optional<net::Protocol> protocol);

// Deletes this entry and none that has taken its place.
netlink::Message delete_request(const TrackedFlow& tracked);

// One direction of an entry: `type` is CTA_TUPLE_ORIG or CTA_TUPLE_REPLY.
void put_tuple(nlmsghdr* header, uint16_t type, const net::Tuple& tuple, net::Protocol protocol);

}  // namespace kernel
