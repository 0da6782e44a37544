// Is the proxy keeping up? Any thread: sync threads report, the loop thread asks.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

#include "net/ip.h"

namespace serve {

class Health {
 public:
  using Wall = std::chrono::system_clock::time_point;
  using Steady = std::chrono::steady_clock::time_point;
  struct Clocks {
    std::function<Wall()> wall = &std::chrono::system_clock::now;  // what is shown
    std::function<Steady()> steady =
        &std::chrono::steady_clock::now;  // what is decided by: it never jumps
  };

  // A family that has had something to do for `patience` (two sync periods) is not healthy.
  explicit Health(std::chrono::nanoseconds patience);
  Health(std::chrono::nanoseconds patience, Clocks clocks);

  // There is something to do for this family. The first time counts until updated().
  void queued(net::Family family);
  // The kernel is up to date. Also called once when the family's thread starts.
  void updated(net::Family family);
  // May load balancers send traffic to this node? No until said.
  void set_node_eligible(bool eligible);

  struct FamilyView {
    Wall last_updated;
    bool healthy = true;
  };
  struct View {
    Wall now;
    bool node_eligible = false;
    bool healthy = true;
    std::array<std::optional<FamilyView>, 2> families;  // by family; those that have started
  };
  View look() const;
  bool healthy() const { return look().healthy; }

 private:
  struct FamilyState {
    std::optional<Wall> last_updated;     // none: has not started
    std::optional<Steady> pending_since;  // none: nothing to do
  };
  struct State {
    std::array<FamilyState, 2> families;  // by family
    bool node_eligible = false;
  };
  State state() const;

  const std::chrono::nanoseconds patience_;
  const Clocks clocks_;
  mutable std::mutex mutex_;
  State state_;  // only with the mutex
};

}  // namespace serve
