// The kernel's load balancer (IPVS), over generic netlink.
//
// Blocks; used on a sync thread and by one-shot commands.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernel/netlink.h"
#include "net/ip.h"

namespace kernel {

// What names a virtual server.
struct ServerKey {
  net::IpAddr ip;
  uint16_t port = 0;
  net::Protocol protocol = net::Protocol::Tcp;

  // "10.96.0.1:443/TCP", "[fd00::1]:443/TCP"
  std::string str() const;
  auto operator<=>(const ServerKey&) const = default;
};

struct VirtualServer {
  static constexpr uint32_t kPersistent = 0x01;  // the same client goes to the same real server
  static constexpr uint32_t kHashesPort = 0x10;  // of scheduler mh: source address and port

  ServerKey key;
  std::string scheduler;
  uint32_t flags = 0;      // without the one that the kernel sets by itself
  uint32_t timeout_s = 0;  // of persistence

  bool operator==(const VirtualServer&) const = default;
};

// All are reached by masquerading.
struct RealServer {
  net::IpAddr ip;
  uint16_t port = 0;
  uint32_t weight = 1;  // 0: no new connections

  auto operator<=>(const RealServer&) const = default;
};

struct RealServerState {
  RealServer server;
  uint32_t active = 0;    // connections that are established
  uint32_t inactive = 0;  // ... and those that are not, or not any more
};

class Ipvs {
 public:
  // Unsupported if the kernel has no IPVS, or has not loaded it: then there are no virtual servers either.
  static base::Result<Ipvs> open();

  // Removes every virtual server of this network namespace, whoever made it.
  base::Result<> flush();

  // Those of this family, whoever made them, by key, but for servers that are named by a firewall mark. While servers are
  // removed, in any network namespace, the kernel may fail to tell of others.
  base::Result<std::vector<VirtualServer>> servers(net::Family family);
  // NotFound if there is no such virtual server. The scheduler and flags are not looked at.
  base::Result<std::vector<RealServerState>> real_servers(const ServerKey& server);

  // Of connections, in seconds; 0 leaves one as it is.
  struct Timeouts {
    uint32_t tcp = 0;
    uint32_t tcp_fin = 0;
    uint32_t udp = 0;
  };
  base::Result<> set_timeouts(const Timeouts& timeouts);

  // Changes, in order. Each is an act of its own: some may fail where others have happened.
  class Changes {
   public:
    void add(const VirtualServer& server);
    void update(const VirtualServer& server);
    void remove(const ServerKey& server);
    void add(const ServerKey& server, const RealServer& real);
    void update(const ServerKey& server, const RealServer& real);
    void remove(const ServerKey& server, const RealServer& real);

    size_t size() const { return requests_.size(); }
    bool empty() const { return requests_.size() == 0; }

   private:
    friend class Ipvs;
    netlink::Requests requests_;
  };
  // Which changes failed, by their place among `changes` from 0 on.
  base::Result<std::vector<netlink::RequestFailure>> apply(Changes changes);

  // Can virtual servers have this scheduler? Loads its module, if there is one and we may. Tries it out with a server
  // that no Service may have.
  base::Result<bool> has_scheduler(const std::string& name);

  // Loads those modules that the kernel must not be left to load when a Service asks for their scheduler, as far as there
  // are such. For as long as we have the right to.
  static void load_awkward_schedulers();

  // Messages sent so far.
  uint64_t sent() const;

 private:
  Ipvs(netlink::Conversation conversation, uint16_t family)
      : conversation_(std::move(conversation)), family_(family) {}

  base::Result<> find(const ServerKey& server);
  // 0, or why the kernel refuses.
  base::Result<int> try_change(uint8_t command, const VirtualServer& server);

  netlink::Conversation conversation_;
  uint16_t family_ = 0;  // the number that generic netlink has given to IPVS
};

// The schedulers of Linux, whether or not this kernel has them.
inline constexpr std::string_view kSchedulers[] = {
    "rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh", "twos"};

}  // namespace kernel
