#include "serve/health.h"

#include <utility>

namespace serve {

Health::Health(std::chrono::nanoseconds patience) : Health(patience, Clocks{}) {}

Health::Health(std::chrono::nanoseconds patience, Clocks clocks)
    : patience_(patience), clocks_(std::move(clocks)) {}

void Health::queued(net::Family family) {
  const Steady now = clocks_.steady();
  const std::lock_guard lock(mutex_);
  auto& pending_since = state_.families[static_cast<size_t>(family)].pending_since;
  if (!pending_since) pending_since = now;
}

void Health::updated(net::Family family) {
  const Wall now = clocks_.wall();
  const std::lock_guard lock(mutex_);
  state_.families[static_cast<size_t>(family)] = {.last_updated = now, .pending_since = {}};
}

void Health::set_node_eligible(bool eligible) {
  const std::lock_guard lock(mutex_);
  state_.node_eligible = eligible;
}

Health::State Health::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

Health::View Health::look() const {
  const State state = this->state();
  const Steady now = clocks_.steady();
  View view{.now = clocks_.wall(), .node_eligible = state.node_eligible};
  for (size_t i = 0; i < state.families.size(); ++i) {
    const auto& [last_updated, pending_since] = state.families[i];
    if (!last_updated) continue;
    const bool late = pending_since && now - *pending_since >= patience_;
    view.families[i] = FamilyView{.last_updated = *last_updated, .healthy = !late};
    view.healthy = view.healthy && !late;
  }
  return view;
}

}  // namespace serve
