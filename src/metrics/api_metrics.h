// What is measured about the way to the API server: kube-proxy's rest_client_* metrics, and how far
// behind we are.
//
// `method` is that of HTTP, `resource` the plural in URLs ("endpointslices"). Any thread, but for
// connected_to(), which comes first.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <prometheus/metric_family.h>

namespace metrics {

struct Table;

// A request, however often it was sent until there was an answer.
struct ApiRequest {
  std::string_view method;
  std::chrono::nanoseconds took{};
  size_t sent_bytes = 0;
  std::optional<size_t> received_bytes{};  // unless there was no answer
};

class ApiMetrics {
 public:
  using Time = std::chrono::system_clock::time_point;

  // `table` outlives it.
  ApiMetrics(Table& table, std::function<Time()> clock);
  ~ApiMetrics();

  // The "host:port" of the server, once. Without it there is no API server, and nothing else to tell.
  void connected_to(std::string host);

  // One attempt has an answer ("200"), or none ("<error>"). `again`: it was not the first.
  void attempted(std::string_view method, std::string_view code, bool again);
  void finished(const ApiRequest& request);
  // How long a request had to wait for the rate limit, be it no time at all.
  void throttled(std::string_view method, std::chrono::nanoseconds waited);
  void resolved(std::string_view host, std::chrono::nanoseconds took);

  // An exec plugin has run: "no_error", "plugin_execution_error", ...
  void plugin_called(int exit_code, std::string_view status);
  // It gave a certificate that is good until then.
  void certificate_given(std::chrono::sys_seconds expires);
  // The certificate that it gave before was this old.
  void certificate_replaced(std::chrono::seconds age);

  // Something has arrived, were it only a bookmark; decoding it took so long.
  void heard(std::string_view resource, std::chrono::nanoseconds decoding);
  // A change has arrived that happened so long ago.
  void lagged(std::string_view resource, std::chrono::nanoseconds lag);

  // What is known only when somebody looks.
  void collect(std::vector<prometheus::MetricFamily>& families) const;

 private:
  struct Rows;

  std::function<Time()> clock_;
  std::string host_;
  std::unique_ptr<Rows> rows_;
};

}  // namespace metrics
