#include "backend/ipvs/drain.h"

namespace ipvs {

void Drain::add(const kernel::ServerKey& server, const kernel::RealServer& real, Time now) {
  if (servers_.empty()) next_ = now + kPeriod;
  servers_[server].emplace(real.ip, real.port);
}

bool Drain::take(const kernel::ServerKey& server, const kernel::RealServer& real) {
  const auto found = servers_.find(server);
  if (found == servers_.end() || found->second.erase({real.ip, real.port}) == 0) return false;
  if (found->second.empty()) servers_.erase(found);
  return true;
}

bool Drain::contains(const kernel::ServerKey& server, const kernel::RealServer& real) const {
  const auto found = servers_.find(server);
  return found != servers_.end() && found->second.contains({real.ip, real.port});
}

size_t Drain::size() const {
  size_t total = 0;
  for (const auto& [server, reals] : servers_)
    total += reals.size();
  return total;
}

std::vector<kernel::ServerKey> Drain::begin_look(Time now) {
  next_ = now + kPeriod;
  std::vector<kernel::ServerKey> keys;
  for (const auto& [server, reals] : servers_)
    keys.push_back(server);
  return keys;
}

std::vector<kernel::RealServer> Drain::settle(const kernel::ServerKey& server,
                                              const std::vector<kernel::RealServerState>& states) {
  const auto found = servers_.find(server);
  if (found == servers_.end()) return {};
  std::vector<kernel::RealServer> idle;
  std::set<Place> busy;
  for (const auto& state : states) {
    const Place place{state.server.ip, state.server.port};
    if (!found->second.contains(place)) continue;
    if (state.active + state.inactive == 0) {
      idle.push_back(state.server);
    } else {
      busy.insert(place);
    }
  }
  if (busy.empty()) {
    servers_.erase(found);
  } else {
    found->second = std::move(busy);
  }
  return idle;
}

}  // namespace ipvs
