// connect_bench serve PORT: accepts IPv4 connections and closes them, until it is killed.
// connect_bench measure COUNT FIRST-PORT VIP PORT ENDPOINT-PORT ENDPOINT...: how long a new TCP connection
// takes.
//
// Connects COUNT times to VIP:PORT and COUNT times straight to the endpoints, in turn, so that what else
// the machine does meets both alike. Each connection has a source port of its own, from FIRST-PORT on: the
// kernel need not look for one, and connection tracking never finds an older connection in the way. Prints
// one JSON object, in microseconds of connect(2).
#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace {

using base::Result;

constexpr int kBacklog = 4096;

struct Wish {
  uint32_t count = 0;
  uint16_t first_port = 0;
  sockaddr_in vip{};
  std::vector<sockaddr_in> endpoints;
};

template <typename Number>
bool parse(const char* text, Number& out) {
  const char* end = text + std::strlen(text);
  return std::from_chars(text, end, out).ptr == end && out > 0;
}

bool parse(const char* text, uint16_t port, sockaddr_in& out) {
  out = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
  return ::inet_pton(AF_INET, text, &out.sin_addr) == 1;
}

bool parse(int argc, char** argv, Wish& out) {
  uint16_t port = 0;
  uint16_t endpoint_port = 0;
  if (argc < 8 || !parse(argv[2], out.count) || !parse(argv[3], out.first_port) ||
      !parse(argv[5], port) || !parse(argv[4], port, out.vip) || !parse(argv[6], endpoint_port))
    return false;
  if (out.first_port + 2 * uint64_t{out.count} > UINT16_MAX) return false;
  out.endpoints.resize(static_cast<size_t>(argc - 7));
  for (size_t i = 0; i < out.endpoints.size(); ++i)
    if (!parse(argv[7 + i], endpoint_port, out.endpoints[i])) return false;
  return true;
}

// A TCP socket that is bound to a port of every address.
Result<base::Fd> bound_socket(uint16_t port) {
  base::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return base::fail_errno("socket");
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in any{
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0)
    return base::fail_errno("bind to port " + std::to_string(port));
  return fd;
}

Result<> serve(uint16_t port) {
  const auto listener = TRY(bound_socket(port));
  if (::listen(listener.get(), kBacklog) != 0) return base::fail_errno("listen");
  while (true)
    base::Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

Result<double> connect_us(uint16_t from, const sockaddr_in& to) {
  const auto fd = TRY(bound_socket(from));
  // Ended by a reset, so that no side remembers the connection.
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  const auto start = std::chrono::steady_clock::now();
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    return base::fail_errno("connect");
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

std::string summary(const std::string& name, std::vector<double>& took) {
  std::ranges::sort(took);
  char text[100];
  std::snprintf(text, sizeof text, R"("%s_us":%.2f,"%s_p99_us":%.2f)", name.c_str(),
                took[took.size() / 2], name.c_str(), took[took.size() * 99 / 100]);
  return text;
}

Result<> measure(const Wish& wish) {
  std::vector<double> vip;
  std::vector<double> direct;
  uint16_t port = wish.first_port;
  for (uint32_t i = 0; i < wish.count; ++i) {
    vip.push_back(TRY(connect_us(port++, wish.vip)));
    direct.push_back(TRY(connect_us(port++, wish.endpoints[i % wish.endpoints.size()])));
  }
  std::printf("{%s,%s}\n", summary("vip", vip).c_str(), summary("direct", direct).c_str());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  uint16_t port = 0;
  Wish wish;
  Result<> done;
  if (what == "serve" && argc == 3 && parse(argv[2], port)) {
    done = serve(port);
  } else if (what == "measure" && parse(argc, argv, wish)) {
    done = measure(wish);
  } else {
    std::fprintf(stderr,
                 "usage: connect_bench serve PORT\n"
                 "       connect_bench measure COUNT FIRST-PORT VIP PORT ENDPOINT-PORT "
                 "ENDPOINT...\n");
    return 2;
  }
  if (!done) std::fprintf(stderr, "connect_bench: %s\n", done.error().text.c_str());
  return done ? 0 : 1;
}
