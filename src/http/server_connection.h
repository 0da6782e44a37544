// One client of a Server, from its first byte to its last.
#pragma once

#include <memory>
#include <optional>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "event/async.h"
#include "http/server.h"
#include "http/server_places.h"

namespace http {

// What a server and its connections share. It lives until the last of them has ended.
struct ServerCore {
  Server::Handler handler;
  ServerLimits limits;
  std::shared_ptr<Places> places;
  bool stopped = false;  // the handler must not be called any more
};

class ServerConnection final : public std::enable_shared_from_this<ServerConnection>,
                               private Places::Guest {
 public:
  // Serves the client until either side ends it.
  static void start(std::shared_ptr<const ServerCore> core, Places::Host& host,
                    boost::asio::ip::tcp::socket socket);

  ServerConnection(std::shared_ptr<const ServerCore> core, boost::asio::ip::tcp::socket socket);

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void make_way() override;

  event::Async<> run();
  // One request and its answer. False: it was the last.
  event::Async<bool> exchange();
  // False: the client has gone, or was silent for too long, or had to make way for another.
  event::Async<bool> request_begins();
  event::Async<boost::system::error_code> read(Parser& parser);
  std::string handle(const Parser::value_type& request, const RequestTarget& target) const;
  event::Async<bool> send(const std::string& text);
  event::Async<> refuse(int status, std::string_view why);
  event::Async<> linger();

  // The client's turn, and ours.
  void wait_for_client();
  void serve_client();

  std::shared_ptr<const ServerCore> core_;
  const ServerLimits& limits_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<Places::Ticket> ticket_;  // none: it has made way
};

}  // namespace http
