// Real servers that get no new connections, and stay until the last one they have is over. Pure.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "kernel/ipvs.h"

namespace ipvs {

class Drain {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // How often to look whether they may go.
  static constexpr std::chrono::minutes kPeriod{1};

  void add(const kernel::ServerKey& server, const kernel::RealServer& real, Time now);
  // Forgets it. True: it was there.
  bool take(const kernel::ServerKey& server, const kernel::RealServer& real);
  // ... with all of its real servers.
  void forget(const kernel::ServerKey& server) { servers_.erase(server); }

  bool contains(const kernel::ServerKey& server, const kernel::RealServer& real) const;
  size_t size() const;

  Time next() const { return servers_.empty() ? Time::max() : next_; }
  // The virtual servers to look at now. The next look is due a while later.
  std::vector<kernel::ServerKey> begin_look(Time now);
  // What the kernel has of one of them. Returns those that may be deleted, and forgets them and what is gone.
  std::vector<kernel::RealServer> settle(const kernel::ServerKey& server,
                                         const std::vector<kernel::RealServerState>& states);

 private:
  using Place = std::pair<net::IpAddr, uint16_t>;
  std::map<kernel::ServerKey, std::set<Place>> servers_;
  Time next_{};
};

// Of UDP and SCTP nobody waits for the end: there, connections are only remembered, and answers to them go nowhere.
inline bool is_drained(net::Protocol protocol) { return protocol == net::Protocol::Tcp; }

}  // namespace ipvs
