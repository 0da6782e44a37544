// Proxy ports: which ports of this node sockets of ours may have.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <random>
#include <set>

#include "base/result.h"

namespace userspace {

// --proxy-port-range
struct PortRange {
  uint16_t first = 0;  // 0: any port that is free
  uint16_t last = 0;

  bool any() const { return first == 0; }
  bool contains(uint16_t port) const { return any() || (first <= port && port <= last); }
};

// Remembers which ports are in use, and finds free ones: in a range from a random one on upwards, then from the start.
class PortPool {
 public:
  PortPool(PortRange range, std::mt19937 random) : range_(range), random_(random) {}

  // Opens a socket on this port, or on one that the kernel chooses if it is 0, and returns the port that it has. Exists:
  // somebody else has it, another one will do.
  using Open = std::function<base::Result<uint16_t>(uint16_t)>;

  // Takes the preferred port (0: none) if that is possible, otherwise another one.
  base::Result<uint16_t> take(uint16_t preferred, const Open& open);
  void give_back(uint16_t port) { used_.reset(port); }

  // From now on these are given to those only who prefer them.
  void reserve(std::set<uint16_t> ports) { reserved_ = std::move(ports); }

 private:
  bool is_free(uint16_t port) const { return !used_[port] && !reserved_.contains(port); }
  base::Result<uint16_t> take_from_range(const Open& open);

  PortRange range_;
  std::mt19937 random_;
  std::bitset<65536> used_;
  std::set<uint16_t> reserved_;
};

}  // namespace userspace
