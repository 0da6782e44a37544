#include "serve/metrics_server.h"

#include "log/log.h"

namespace serve {

base::Result<std::unique_ptr<PatientServer>> start_metrics_server(
    const boost::asio::any_io_executor& executor, const MetricsPages& shown) {
  const config::Config& config = shown.config;
  if (config.metrics_bind_address.empty()) return nullptr;
  return PatientServer::start(executor,
                              [routes = metrics_routes(shown)](const http::Incoming& incoming) {
                                return answer(routes, incoming);
                              },
                              {.address = config.metrics_bind_address,
                               .hard_fail = config.bind_address_hard_fail,
                               .tell_failure = [](const base::Error& error) {
                                 klog::error("starting metrics server failed", error.text);
                               }});
}

}  // namespace serve
