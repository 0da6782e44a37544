// A connection as the kernel tracks it: two tuples, one for each direction.
#pragma once

#include <cstdint>

#include "net/ip.h"

namespace net {

struct Tuple {
  IpAddr source;
  IpAddr destination;
  uint16_t source_port = 0;
  uint16_t destination_port = 0;

  bool operator==(const Tuple&) const = default;
};

// 10.0.0.7:4711 -> 10.96.0.10:53 answered by 10.1.2.3:8053: the source of `reply` is who really answers, its
// destination whom it answers to.
struct Flow {
  Protocol protocol = Protocol::Tcp;
  Tuple original;
  Tuple reply;

  // Was the destination rewritten?
  bool redirected() const {
    return reply.source != original.destination || reply.source_port != original.destination_port;
  }

  bool operator==(const Flow&) const = default;
};

}  // namespace net
