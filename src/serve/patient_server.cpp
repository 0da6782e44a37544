#include "serve/patient_server.h"

#include <optional>
#include <tuple>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

namespace serve {

class PatientServer::Attempts : public std::enable_shared_from_this<Attempts> {
 public:
  Attempts(const boost::asio::any_io_executor& executor, http::Server::Handler handler,
           Options options)
      : handler_(std::move(handler)), options_(std::move(options)), timer_(executor) {}

  base::Result<> attempt() {
    auto server = http::Server::listen(timer_.get_executor(), options_.address, handler_);
    if (server) {
      server_.emplace(std::move(*server));
      return {};
    }
    options_.tell_failure(server.error());
    if (options_.hard_fail) return std::unexpected(server.error());
    try_again_later();
    return {};
  }

  uint16_t port() const { return server_ ? server_->port() : 0; }

 private:
  void try_again_later() {
    timer_.expires_after(options_.retry);
    // The server may be gone before this is called.
    timer_.async_wait([weak = weak_from_this()](const auto& error) {
      const auto self = weak.lock();
      if (error || self == nullptr) return;
      // Only a hard fail returns an error, and that has ended the trying.
      std::ignore = self->attempt();
    });
  }

  http::Server::Handler handler_;
  Options options_;
  boost::asio::steady_timer timer_;
  std::optional<http::Server> server_;
};

base::Result<std::unique_ptr<PatientServer>> PatientServer::start(
    const boost::asio::any_io_executor& executor, http::Server::Handler handler, Options options) {
  auto attempts = std::make_shared<Attempts>(executor, std::move(handler), std::move(options));
  TRY(attempts->attempt());
  return std::unique_ptr<PatientServer>(new PatientServer(std::move(attempts)));
}

PatientServer::PatientServer(std::shared_ptr<Attempts> attempts) : attempts_(std::move(attempts)) {}
PatientServer::~PatientServer() = default;

uint16_t PatientServer::port() const { return attempts_->port(); }

}  // namespace serve
