// What a page of ours is asked, and what it answers: plain values, and how they look on the wire.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http {

struct Incoming {
  std::string method;
  std::string path;   // decoded: "/proxyMode"
  std::string query;  // as sent: "verbose&exclude=ping"
  std::string accept;
  std::string accept_encoding;
  std::string body;
};

struct Answer {
  int status = 200;
  // In the order in which they are sent; Date, Content-Length and Connection are added.
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string body{};
};

// Text that a browser is not to guess about, as most pages of Kubernetes are.
Answer text_answer(int status, std::string body);

// "404 page not found", as Go's servers say it.
Answer not_found();

// What a request line asks for. Nothing if it is no target that a server can be asked for.
struct RequestTarget {
  std::string path;
  std::string query;
};
std::optional<RequestTarget> parse_target(std::string_view target);

// The values of one name in a query, in order: of "verbose" in "verbose&exclude=ping" one empty one.
std::vector<std::string> query_values(std::string_view query, std::string_view name);

struct AnswerContext {
  bool http_1_0 = false;  // else 1.1
  bool head = false;      // leave out the body
  bool keep_alive = true;
  std::chrono::system_clock::time_point now;
};
std::string write_answer(const Answer& answer, const AnswerContext& context);

// The answer to bytes that are no request; the connection ends with it. `why` may be empty.
std::string write_refusal(int status, std::string_view why);

}  // namespace http
