// Where a daemon gets its objects from: a folder of manifests, or the API server.
#pragma once

#include "base/result.h"
#include "kube/events.h"

namespace proxyd {

// Lives on the loop thread; hands everything to the Intake.
class Source {
 public:
  virtual ~Source() = default;

  // Returns when this node's object is known, or is given up on. Runs the loop meanwhile if need be.
  virtual base::Result<> find_node() = 0;

  // From now on everything, while the loop runs. Tells the Intake when its state is complete.
  virtual void start() = 0;

  // For people who look at the cluster's events; nothing where there is no cluster.
  virtual void record(kube::Event event) = 0;
  // Before an exit: lets the loop run until what was recorded has arrived, for 2 s at most.
  virtual void flush_events() = 0;
};

}  // namespace proxyd
