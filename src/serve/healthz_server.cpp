#include "serve/healthz_server.h"

#include "log/log.h"

namespace serve {

base::Result<std::unique_ptr<PatientServer>> start_healthz_server(
    const boost::asio::any_io_executor& executor, const HealthPages& shown,
    const config::Config& config) {
  const std::string& address = config.healthz_bind_address;
  if (address.empty()) return nullptr;
  const std::string what = "failed to start proxy healthz on " + address;
  return TRY_CONTEXT(
      PatientServer::start(executor,
                           [routes = health_routes(shown)](const http::Incoming& incoming) {
                             return answer(routes, incoming);
                           },
                           {.address = address,
                            .hard_fail = config.bind_address_hard_fail,
                            .tell_failure =
                                [what](const base::Error& error) {
                                  klog::error("Healthz server failed", error.in(what).text);
                                }}),
      "healthz server failed: " + what);
}

}  // namespace serve
