#include "backend/userspace/endpoints.h"

#include <algorithm>
#include <utility>

namespace userspace {

using relay::TargetPtr;

void Endpoints::set_affinity(const std::optional<uint32_t>& seconds) {
  if (!seconds) {
    affinities_ = nullptr;
  } else if (affinities_ == nullptr) {
    affinities_ = std::make_shared<relay::Affinities>(std::chrono::seconds(*seconds));
  } else {
    affinities_->set_ttl(std::chrono::seconds(*seconds));
  }
}

// One that is back is the same target, with the connections that it has.
TargetPtr Endpoints::target(const plan::EndpointPlan& endpoint) {
  const Key key{endpoint.ip, endpoint.port};
  if (auto back = gone_.extract(key)) {
    back.mapped()->come_back();
    return back.mapped();
  }
  const auto known = targets_.find(key);
  return known != targets_.end() ? known->second
                                 : std::make_shared<relay::Target>(endpoint.ip, endpoint.port);
}

bool Endpoints::update(const plan::PortPlan& plan, const Farewell& farewell, std::mt19937& random) {
  set_affinity(plan.affinity_timeout_s);
  Targets now;
  std::vector<TargetPtr> cluster;
  std::vector<TargetPtr> local;
  for (const auto& endpoint : plan.endpoints) {
    const auto& one = now[{endpoint.ip, endpoint.port}] = target(endpoint);
    one->set_serving(endpoint.cluster != plan::Reason::NotReady &&
                     endpoint.node_local != plan::Reason::NotReady);
    if (plan::in_use(endpoint.cluster)) cluster.push_back(one);
    if (plan::in_use(endpoint.node_local)) local.push_back(one);
  }
  set_list(cluster_, std::move(cluster), random);
  set_list(local_, std::move(local), random);
  const Targets before = std::exchange(targets_, std::move(now));
  return dismiss_missing(before, farewell);
}

bool Endpoints::leave(const Farewell& farewell) {
  return dismiss_missing(std::exchange(targets_, {}), farewell);
}

bool Endpoints::dismiss_missing(const Targets& before, const Farewell& farewell) {
  bool some = false;
  for (const auto& [key, target] : before) {
    if (targets_.contains(key)) continue;
    some = true;
    target->leave(farewell.deadline());
    // Connections that are left alone need nobody who remembers the target.
    if (farewell.drain.count() > 0) gone_[key] = target;
  }
  return some;
}

void Endpoints::set_list(OneList& list, std::vector<TargetPtr> members, std::mt19937& random) {
  const bool same =
      list.balancer != nullptr && list.members == members && list.affinities == affinities_;
  if (same) return;
  list.members = members;
  list.affinities = affinities_;
  std::ranges::shuffle(members, random);
  list.balancer = std::make_shared<relay::Balancer>(std::move(members), affinities_);
}

std::shared_ptr<relay::Balancer> Endpoints::list(List which) const {
  switch (which) {
    case List::None:
      return nullptr;
    case List::Cluster:
      return cluster_.balancer;
    case List::Local:
      return local_.balancer;
  }
  return nullptr;
}

bool Endpoints::forget(relay::Time now) {
  std::erase_if(gone_, [&](const auto& entry) { return entry.second->deadline() <= now; });
  if (affinities_ != nullptr) affinities_->forget_stale(now);
  return !gone_.empty() || affinities_ != nullptr;
}

}  // namespace userspace
