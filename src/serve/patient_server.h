// A server that keeps trying to get its address, every 5 s and for ever.
//
// Lives on the loop thread. Destroying it ends the trying, and the serving.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "http/server.h"

namespace serve {

class PatientServer {
 public:
  struct Options {
    std::string address;
    bool hard_fail = false;  // bindAddressHardFail: the first failure is the last
    std::function<void(const base::Error&)> tell_failure;  // called for each
    std::chrono::milliseconds retry = std::chrono::seconds(5);
  };

  // Listens, now or as soon as it can. The error of a hard fail has been told as well.
  static base::Result<std::unique_ptr<PatientServer>> start(
      const boost::asio::any_io_executor& executor, http::Server::Handler handler, Options options);

  ~PatientServer();

  // 0 while it does not listen.
  uint16_t port() const;

 private:
  class Attempts;
  explicit PatientServer(std::shared_ptr<Attempts> attempts);

  std::shared_ptr<Attempts> attempts_;
};

}  // namespace serve
