// The pages of the healthz server: /healthz, which load balancers ask, and /livez, which kubelets
// ask. Loop thread.
#pragma once

#include <functional>

#include "serve/health.h"
#include "serve/routes.h"

namespace serve {

struct HealthPages {
  const Health& health;  // outlives the routes
  // Called with the status of each answer.
  std::function<void(int status)> healthz_answered;
  std::function<void(int status)> livez_answered;
};
Routes health_routes(const HealthPages& shown);

}  // namespace serve
