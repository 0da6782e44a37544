#include "http/server_message.h"

#include <time.h>

#include "base/text.h"

namespace http {
namespace {

std::string_view reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 302:
      return "Found";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 413:
      return "Request Entity Too Large";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "status";
  }
}

std::string status_text(int status) {
  return std::to_string(status) + " " + std::string(reason(status));
}

// "Mon, 16 Nov 2026 02:30:19 GMT"
std::string http_date(std::chrono::system_clock::time_point time) {
  const time_t seconds = std::chrono::system_clock::to_time_t(time);
  tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[64];
  return {text, ::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

// "%2F" -> "/"; nothing if an escape is broken.
std::optional<std::string> decode_escapes(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    const auto byte = base::parse_number<uint8_t>(digits, 16);
    if (digits.size() != 2 || !byte) return std::nullopt;
    out += static_cast<char>(*byte);
    i += 2;
  }
  return out;
}

// Proxies are asked for "http://host/path", and some ask us so.
std::string_view without_authority(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  if (!base::lower(target.substr(0, kScheme.size())).starts_with(kScheme)) return target;
  const size_t path = target.find_first_of("/?", kScheme.size());
  return path == std::string_view::npos ? std::string_view() : target.substr(path);
}

std::string plus_as_space(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c == '+') c = ' ';
  return out;
}

}  // namespace

Answer text_answer(int status, std::string body) {
  return {.status = status,
          .headers = {{"Content-Type", "text/plain; charset=utf-8"},
                      {"X-Content-Type-Options", "nosniff"}},
          .body = std::move(body)};
}

Answer not_found() { return text_answer(404, "404 page not found\n"); }

std::optional<RequestTarget> parse_target(std::string_view target) {
  const std::string_view local = without_authority(target);
  const bool absolute = local.size() != target.size();
  const size_t mark = local.find('?');
  const std::string_view path = local.substr(0, mark);
  if (path.empty() && !absolute) return std::nullopt;
  if (!path.empty() && path.front() != '/' && path != "*") return std::nullopt;
  auto decoded = decode_escapes(path);
  if (!decoded) return std::nullopt;
  const std::string_view query =
      mark == std::string_view::npos ? std::string_view() : local.substr(mark + 1);
  return RequestTarget{std::move(*decoded), std::string(query)};
}

std::vector<std::string> query_values(std::string_view query, std::string_view name) {
  std::vector<std::string> values;
  for (const std::string_view part : base::split(query, '&')) {
    const size_t equals = part.find('=');
    const auto key = decode_escapes(plus_as_space(part.substr(0, equals)));
    if (part.empty() || key != name) continue;
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
    if (auto decoded = decode_escapes(plus_as_space(value))) values.push_back(std::move(*decoded));
  }
  return values;
}

std::string write_answer(const Answer& answer, const AnswerContext& context) {
  std::string out =
      (context.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ") + status_text(answer.status) + "\r\n";
  for (const auto& [name, value] : answer.headers)
    out += name + ": " + value + "\r\n";
  out += "Date: " + http_date(context.now) + "\r\n";
  out += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
  // What the version does by itself is not said.
  if (context.keep_alive == context.http_1_0)
    out += context.keep_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
  out += "\r\n";
  if (!context.head) out += answer.body;
  return out;
}

std::string write_refusal(int status, std::string_view why) {
  std::string line = status_text(status);
  if (!why.empty()) line += ": " + std::string(why);
  return "HTTP/1.1 " + line +
         "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" + line;
}

}  // namespace http
