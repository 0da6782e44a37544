// Tells the metrics what happens on the way to the API server. Loop thread.
#pragma once

#include "kube/observer.h"
#include "metrics/api_metrics.h"

namespace proxyd {

class ApiObserver final : public kube::Observer {
 public:
  // The metrics outlive it.
  explicit ApiObserver(metrics::ApiMetrics& metrics) : metrics_(metrics) {}

  void attempted(std::string_view method, std::string_view code, bool again) override {
    metrics_.attempted(method, code, again);
  }
  void finished(const Finished& request) override {
    metrics_.finished({.method = request.method,
                       .took = request.took,
                       .sent_bytes = request.sent_bytes,
                       .received_bytes = request.received_bytes});
  }
  void throttled(std::string_view method, std::chrono::nanoseconds waited) override {
    metrics_.throttled(method, waited);
  }
  void resolved(std::string_view host, std::chrono::nanoseconds took) override {
    metrics_.resolved(host, took);
  }
  void plugin_called(int exit_code, std::string_view status) override {
    metrics_.plugin_called(exit_code, status);
  }
  void certificate_given(std::chrono::sys_seconds expires) override {
    metrics_.certificate_given(expires);
  }
  void certificate_replaced(std::chrono::seconds age) override {
    metrics_.certificate_replaced(age);
  }

 private:
  metrics::ApiMetrics& metrics_;
};

}  // namespace proxyd
