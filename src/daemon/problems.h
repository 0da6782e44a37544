// What Services ask for by annotation and do not get: told once, on the Service itself.
//
// The sync threads of both families find problems; this lives on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "model/objects.h"
#include "net/ip.h"

namespace proxyd {

// What one sync has found.
struct Problems {
  net::Family family = net::Family::V4;
  bool full = false;                     // it has looked at all Services
  std::set<model::ServiceKey> services;  // ... or at these
  std::vector<backend::Problem> found;
};

class ProblemBook {
 public:
  using Tell = std::function<void(const backend::Problem&)>;

  explicit ProblemBook(Tell tell) : tell_(std::move(tell)) {}

  // Tells of those that are new. One that was gone and is back is new again; the second family to find it is not heard.
  void take(const Problems& problems);

 private:
  Tell tell_;
  std::map<net::Family, std::set<backend::Problem>> open_;
};

}  // namespace proxyd
