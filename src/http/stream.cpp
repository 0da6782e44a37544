#include "http/stream.h"

#include <netinet/tcp.h>

#include <chrono>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>

#include "http/proxy_handshake.h"
#include "http/tls_peer.h"
#include "http/watchdog.h"
#include "net/ip.h"

namespace http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using base::ErrorCode;
using base::Result;
using boost::system::error_code;
using event::Async;

using Plain = tcp::socket;
using Tls = asio::ssl::stream<tcp::socket>;
using TlsInTls = asio::ssl::stream<Tls>;

constexpr std::chrono::seconds kDialTimeout{30};
constexpr std::chrono::seconds kHandshakeTimeout{10};

// A silent peer is asked for a sign of life after kIdle, and again every kInterval; it is given up
// when it has acknowledged nothing for kGiveUp.
constexpr int kIdle = 10;
constexpr int kInterval = 5;
constexpr int kProbes = 3;
constexpr std::chrono::milliseconds kGiveUp = std::chrono::seconds(kIdle + kProbes * kInterval);

// "connection refused", as Go's programs print it and people search for it.
std::string lower_first(std::string text) {
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z')
    text[0] = static_cast<char>(text[0] | 0x20);
  return text;
}

base::Error to_error(const error_code& error, const std::string& doing) {
  ErrorCode code = ErrorCode::System;
  if (error == asio::error::connection_refused) code = ErrorCode::Refused;
  if (error == asio::error::timed_out) code = ErrorCode::Timeout;
  if (error == asio::error::eof || error == asio::error::connection_reset ||
      error == asio::error::broken_pipe || error == asio::error::connection_aborted ||
      error == asio::error::operation_aborted || error == asio::error::bad_descriptor ||
      error == asio::ssl::error::stream_truncated) {
    code = ErrorCode::Lost;
  }
  return {code, doing + ": " + lower_first(error.message())};
}

tcp::socket& socket_of(Plain& stream) { return stream; }
tcp::socket& socket_of(Tls& stream) { return stream.next_layer(); }
tcp::socket& socket_of(TlsInTls& stream) { return stream.next_layer().next_layer(); }

template <typename Layer>
class StreamOf final : public ByteStream {
 public:
  explicit StreamOf(Layer layer) : layer_(std::move(layer)) {}

  Async<Result<size_t>> read_some(std::span<char> buffer) override {
    error_code error;
    const size_t size =
        co_await layer_.async_read_some(asio::buffer(buffer.data(), buffer.size()),
                                        asio::redirect_error(asio::use_awaitable, error));
    if (!error) co_return size;
    if (error == asio::error::eof) co_return size_t{0};
    if (error == asio::error::timed_out)
      co_return base::fail(ErrorCode::Timeout, "no answer from the peer for 25 s");
    co_return std::unexpected(to_error(error, "read"));
  }

  Async<Result<>> write(std::string_view bytes) override {
    error_code error;
    co_await asio::async_write(layer_, asio::buffer(bytes.data(), bytes.size()),
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return std::unexpected(to_error(error, "write"));
    co_return Result<>();
  }

  void close() override {
    error_code ignored;
    socket_of(layer_).close(ignored);
  }

  Layer& layer() { return layer_; }

 private:
  Layer layer_;
};

void set_options(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto set = [&](int name, int value) {
    // Best effort: without them the time-outs of the watch still hold.
    (void)::setsockopt(socket.native_handle(), IPPROTO_TCP, name, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, kIdle);
  set(TCP_KEEPINTVL, kInterval);
  set(TCP_KEEPCNT, kProbes);
  set(TCP_USER_TIMEOUT, static_cast<int>(kGiveUp.count()));
}

std::string text_of(const tcp::endpoint& endpoint) {
  const auto address = endpoint.address();
  const std::string host = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
  return host + ":" + std::to_string(endpoint.port());
}

// Takes as long as the C library takes: a lookup in progress cannot be called off.
Async<Result<tcp::resolver::results_type>> resolve(const Url& url, const Target& target) {
  const auto executor = co_await asio::this_coro::executor;
  tcp::resolver resolver(executor);
  const std::string port = std::to_string(url.port);
  error_code error;
  const auto start = std::chrono::steady_clock::now();
  auto found = co_await resolver.async_resolve(url.host, port,
                                               asio::redirect_error(asio::use_awaitable, error));
  const bool looked_up = !net::IpAddr::parse(url.host);
  if (looked_up && target.resolved)
    target.resolved(url.host, std::chrono::steady_clock::now() - start);
  if (error) {
    co_return base::fail(ErrorCode::System,
                         "dial tcp: lookup " + url.host + ": " + lower_first(error.message()));
  }
  co_return found;
}

// One address after the other; each gets an equal share of the time.
Async<Result<tcp::socket>> connect(const Url& url, const Target& target) {
  const auto executor = co_await asio::this_coro::executor;
  auto found = co_await resolve(url, target);
  if (!found) co_return std::unexpected(found.error());
  base::Error last{ErrorCode::System, "dial tcp: lookup " + url.host + ": no addresses"};
  const auto share = kDialTimeout / std::max<size_t>(found->size(), 1);
  for (const auto& entry : *found) {
    const tcp::endpoint endpoint = entry.endpoint();
    tcp::socket socket(executor);
    Watchdog watchdog(executor, [&] { socket.close(); });
    watchdog.arm(share);
    error_code error;
    co_await socket.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, error));
    if (!error) {
      set_options(socket);
      co_return std::move(socket);
    }
    last = to_error(error, "dial tcp " + text_of(endpoint) + ": connect");
    if (watchdog.barked())
      last = {ErrorCode::Timeout, "dial tcp " + text_of(endpoint) + ": i/o timeout"};
  }
  co_return std::unexpected(last);
}

// Secures what is connected already, and takes it over.
template <typename Layer>
Async<Result<std::unique_ptr<ByteStream>>> secure(Layer& plain, const TlsContext& tls,
                                                  const std::string& name) {
  const auto executor = co_await asio::this_coro::executor;
  using Secured = asio::ssl::stream<Layer>;
  auto stream = std::make_unique<StreamOf<Secured>>(Secured(std::move(plain), *tls));
  SSL* ssl = stream->layer().native_handle();
  if (auto expected = expect_peer(ssl, name); !expected)
    co_return std::unexpected(expected.error());
  // OpenSSL forgets the certificate that it refused: what is wrong with it is noted here.
  std::string refused;
  stream->layer().set_verify_callback([&](bool good, asio::ssl::verify_context& context) {
    X509_STORE_CTX* store = context.native_handle();
    if (!good && refused.empty()) {
      refused = peer_problem(X509_STORE_CTX_get_error(store),
                             X509_STORE_CTX_get_current_cert(store), name);
    }
    return good;
  });
  Watchdog watchdog(executor, [&] { stream->close(); });
  watchdog.arm(kHandshakeTimeout);
  error_code error;
  co_await stream->layer().async_handshake(asio::ssl::stream_base::client,
                                           asio::redirect_error(asio::use_awaitable, error));
  if (watchdog.barked())
    co_return base::fail(ErrorCode::Timeout, "net/http: TLS handshake timeout");
  if (error) {
    if (!refused.empty()) co_return base::fail(ErrorCode::Permission, refused);
    co_return std::unexpected(to_error(error, "tls: handshake"));
  }
  // Should the server want a second handshake, there is nothing to note it in any more.
  stream->layer().set_verify_callback([](bool good, asio::ssl::verify_context&) { return good; });
  co_return std::unique_ptr<ByteStream>(std::move(stream));
}

template <typename Layer>
Async<Result<std::unique_ptr<ByteStream>>> finish(std::unique_ptr<StreamOf<Layer>>& connected,
                                                  const Target& target) {
  if (!target.server.tls()) co_return std::unique_ptr<ByteStream>(std::move(connected));
  const std::string& name =
      target.tls_server_name.empty() ? target.server.host : target.tls_server_name;
  auto secured = co_await secure(connected->layer(), target.tls, name);
  co_return std::move(secured);
}

base::Error dial_error(const base::Error& error, const Target& target) {
  return target.proxy ? error.in("proxyconnect tcp") : error;
}

// A proxy is believed by the same roots as the server.
Result<TlsContext> proxy_context(const Target& target) {
  if (target.tls) return target.tls;
  return make_tls_context({});
}

}  // namespace

Async<Result<std::unique_ptr<ByteStream>>> dial(const Target& target) {
  const Url& first = target.proxy ? *target.proxy : target.server;
  auto socket = co_await connect(first, target);
  if (!socket) co_return std::unexpected(dial_error(socket.error(), target));
  auto plain = std::make_unique<StreamOf<Plain>>(std::move(*socket));
  if (!target.proxy) {
    auto done = co_await finish(plain, target);
    co_return std::move(done);
  }
  if (!target.proxy->tls()) {
    auto passed = co_await pass_proxy(*plain, *target.proxy, target.server);
    if (!passed) co_return std::unexpected(passed.error());
    auto done = co_await finish(plain, target);
    co_return std::move(done);
  }
  auto context = proxy_context(target);
  if (!context) co_return std::unexpected(context.error());
  auto outer = co_await secure(plain->layer(), *context, target.proxy->host);
  if (!outer) co_return std::unexpected(outer.error().in("proxyconnect tcp"));
  auto passed = co_await pass_proxy(**outer, *target.proxy, target.server);
  if (!passed) co_return std::unexpected(passed.error());
  std::unique_ptr<StreamOf<Tls>> inner(static_cast<StreamOf<Tls>*>(outer->release()));
  auto done = co_await finish(inner, target);
  co_return std::move(done);
}

}  // namespace http
