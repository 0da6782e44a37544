#include "http/server.h"

#include <sys/socket.h>

#include <tuple>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "http/server_connection.h"
#include "http/server_places.h"
#include "http/server_socket.h"

namespace http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// A callback and no coroutine: of these there may be thousands, and all they do is wait.
class Server::Listener final : public std::enable_shared_from_this<Listener>, private Places::Host {
 public:
  Listener(const asio::any_io_executor& executor, Handler handler, const ServerLimits& limits,
           std::shared_ptr<Places> places)
      : Host(limits.connections),
        acceptor_(executor),
        core_(std::make_shared<ServerCore>(std::move(handler), limits, std::move(places))) {}

  base::Result<> start(ListeningSocket socket) {
    error_code error;
    if (acceptor_.assign(protocol_of(socket.family), socket.fd.get(), error))
      return base::fail(base::ErrorCode::System, error.message());
    socket.fd.release();
    family_ = socket.family;
    wait();
    return {};
  }

  void stop() {
    core_->stopped = true;
    error_code ignored;
    std::ignore = acceptor_.close(ignored);
    core_->places->close(*this);
  }

  uint16_t port() const {
    error_code error;
    return acceptor_.local_endpoint(error).port();
  }

 private:
  static tcp protocol_of(net::Family family) {
    return family == net::Family::V6 ? tcp::v6() : tcp::v4();
  }

  void wait() {
    acceptor_.async_wait(tcp::acceptor::wait_read,
                         [self = shared_from_this()](const error_code& error) {
                           if (!self->core_->stopped && !error) self->accept();
                         });
  }

  void try_again() override { accept(); }

  void accept() {
    if (!core_->places->make_room(*this)) return core_->places->hold_back(*this);
    auto client = accept_client(acceptor_.native_handle(), core_->limits.spare_descriptors);
    // Most likely there are no descriptors left.
    if (!client) return core_->places->hold_back(*this);
    if (*client) serve(std::move(*client));
    wait();
  }

  void serve(base::Fd client) {
    tcp::socket socket(acceptor_.get_executor());
    error_code error;
    if (socket.assign(protocol_of(family_), client.get(), error)) return;
    client.release();
    ServerConnection::start(core_, *this, std::move(socket));
  }

  tcp::acceptor acceptor_;
  net::Family family_ = net::Family::V4;
  std::shared_ptr<ServerCore> core_;
};

std::shared_ptr<Places> make_places(const asio::any_io_executor& executor, size_t connections,
                                    std::chrono::milliseconds settle) {
  return std::make_shared<Places>(executor, connections, settle);
}

base::Result<Server> Server::listen(const asio::any_io_executor& executor,
                                    const std::string& address, Handler handler,
                                    const ServerOptions& options) {
  const auto& limits = options.limits;
  auto socket = TRY(open_listening_socket(address, {options.one_family, limits.spare_descriptors}));
  auto places = options.places != nullptr
                    ? options.places
                    : make_places(executor, limits.connections, limits.settle);
  auto listener =
      std::make_shared<Listener>(executor, std::move(handler), limits, std::move(places));
  TRY_CONTEXT(listener->start(std::move(socket)), "listen tcp " + address);
  return Server(std::move(listener));
}

Server::Server(std::shared_ptr<Listener> listener) : listener_(std::move(listener)) {}
Server::Server(Server&&) noexcept = default;

Server& Server::operator=(Server&& other) noexcept {
  std::swap(listener_, other.listener_);
  return *this;
}

// Asio throws where a timer cannot be cancelled, which happens on Windows only.
Server::~Server() {  // NOLINT(bugprone-exception-escape)
  if (listener_ != nullptr) listener_->stop();
}

uint16_t Server::port() const { return listener_->port(); }

}  // namespace http
