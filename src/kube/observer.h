// What is worth counting about requests and credentials, for whoever overrides it. Loop thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>

namespace kube {

class Observer {
 public:
  virtual ~Observer() = default;

  // One attempt has an answer ("200"), or none ("<error>"). `again`: it was not the first of this request.
  virtual void attempted(std::string_view /*method*/, std::string_view /*code*/, bool /*again*/) {}

  // A request other than a watch is over, all attempts together.
  struct Finished {
    std::string_view method;
    std::chrono::nanoseconds took{};
    size_t sent_bytes = 0;                   // of the body
    std::optional<size_t> received_bytes{};  // of the body, if all of it came
  };
  virtual void finished(const Finished& /*request*/) {}

  // A request other than a watch got its token after so long, often at once.
  virtual void throttled(std::string_view /*method*/, std::chrono::nanoseconds /*waited*/) {}

  // The name of the server, or of a proxy, was looked up.
  virtual void resolved(std::string_view /*host*/, std::chrono::nanoseconds /*took*/) {}

  // An exec plugin has run: "no_error", "plugin_execution_error", "plugin_not_found_error" or
  // "client_internal_error".
  virtual void plugin_called(int /*exit_code*/, std::string_view /*status*/) {}
  // It gave a client certificate that is good until then.
  virtual void certificate_given(std::chrono::sys_seconds /*expires*/) {}
  // The one that it gave before had been good for so long.
  virtual void certificate_replaced(std::chrono::seconds /*age*/) {}
};

// The observer, or one that looks away.
inline Observer& observer_or_none(Observer* observer) {
  static Observer none;
  return observer != nullptr ? *observer : none;
}

}  // namespace kube
