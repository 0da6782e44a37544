// The endpoints of one Service port as the engine knows them. Lives on the sync thread.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "backend/userspace/ways.h"
#include "net/ip.h"
#include "plan/plan.h"
#include "relay/balancer.h"
#include "relay/target.h"

namespace userspace {

class Endpoints {
 public:
  // How connections to endpoints that go are treated.
  struct Farewell {
    relay::Time now;
    std::chrono::nanoseconds drain{};  // how long they may go on; 0: for ever

    relay::Time deadline() const { return drain.count() > 0 ? now + drain : relay::Time::max(); }
  };

  // Takes over what the plan says. A list with the same endpoints as before stays the same object. Returns whether some
  // endpoints have left.
  bool update(const plan::PortPlan& plan, const Farewell& farewell, std::mt19937& random);
  // All leave.
  bool leave(const Farewell& farewell);

  // Null for List::None.
  std::shared_ptr<relay::Balancer> list(List which) const;

  // Forgets endpoints whose connections have ended, and clients that have not come for long. Returns whether to call
  // again some time.
  bool forget(relay::Time now);

 private:
  using Key = std::pair<net::IpAddr, uint16_t>;
  using Targets = std::map<Key, relay::TargetPtr>;
  struct OneList {
    std::vector<relay::TargetPtr> members;  // in the order of the plan
    std::shared_ptr<relay::Affinities> affinities;
    std::shared_ptr<relay::Balancer> balancer;  // made from these
  };

  void set_affinity(const std::optional<uint32_t>& seconds);
  relay::TargetPtr target(const plan::EndpointPlan& endpoint);
  bool dismiss_missing(const Targets& before, const Farewell& farewell);
  void set_list(OneList& list, std::vector<relay::TargetPtr> members, std::mt19937& random);

  Targets targets_;
  Targets gone_;  // with connections that may go on for a while
  std::shared_ptr<relay::Affinities> affinities_;
  OneList cluster_;
  OneList local_;
};

}  // namespace userspace
