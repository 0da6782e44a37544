// Mode userspace for one IP family: fronts in the engine, and rules that lead to them.
//
// Endpoints are no concern of the rules: a change of endpoints alone writes nothing to the kernel.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/userspace/settings.h"
#include "base/result.h"
#include "relay/engine.h"

namespace userspace {

class Proxier : public backend::Backend {
 public:
  static base::Result<std::unique_ptr<Proxier>> open(Settings settings,
                                                     std::shared_ptr<relay::Engine> engine);
  ~Proxier() override;

  net::Family family() const override;
  base::Result<backend::SyncReport> sync(const backend::SyncRequest& request) override;
  bool flushed(bool thorough) override;
  base::Result<std::vector<backend::PortConnections>> count_connections(
      const model::Snapshot& snapshot) override;
  Time tend(Time now) override;

 private:
  struct State;
  explicit Proxier(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace userspace
