// The kernel's load balancer (IPVS), over generic netlink.
//
// Blocks; used on a sync thread and by one-shot commands.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernel/netlink.h"

namespace kernel {

class Ipvs {
 public:
  // Unsupported if the kernel has no IPVS, or has not loaded it: then there are no virtual servers either.
  static base::Result<Ipvs> open();

  // Removes every virtual server of this network namespace, whoever made it.
  base::Result<> flush();

 private:
  Ipvs(netlink::Conversation conversation, uint16_t family)
      : conversation_(std::move(conversation)), family_(family) {}

  netlink::Conversation conversation_;
  uint16_t family_ = 0;  // the number that generic netlink has given to IPVS
};

}  // namespace kernel
