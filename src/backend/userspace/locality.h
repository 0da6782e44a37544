// Who is on this node: asked by fronts whose clients here get more than others do.
#pragma once

#include <mutex>
#include <vector>

#include "base/result.h"
#include "net/ip.h"
#include "plan/local_traffic.h"

namespace userspace {

// May be used from any thread.
class Locality {
 public:
  explicit Locality(plan::LocalTraffic pods) : pods_(std::move(pods)) {}

  // The node itself, from now on. `addresses` are sorted.
  void set_addresses(std::vector<net::IpAddr> addresses);

  // Is it a pod of this node, or the node itself? May ask the kernel.
  bool contains(const net::IpAddr& client) const;

 private:
  bool is_this_node(const net::IpAddr& client) const;

  const plan::LocalTraffic pods_;
  mutable std::mutex mutex_;
  std::vector<net::IpAddr> addresses_;
};

// The addresses of this node in one family, sorted, each once. Without link-local ones of IPv6, which are not unique.
base::Result<std::vector<net::IpAddr>> node_addresses(net::Family family);

}  // namespace userspace
