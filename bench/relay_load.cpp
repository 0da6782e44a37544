// The two ends of bench/relay, for IPv4.
//
//   relay_load serve PORT                       answers requests, sources and sinks bytes, until it is killed
//   relay_load bulk TARGETS N SECONDS down|up   N connections that carry as much as they can
//   relay_load requests TARGETS N SECONDS keep|close
//                                               N clients that ask again as soon as they have an answer
//   relay_load open TARGETS N                   N connections that ask once each, and then do nothing
//
// TARGETS is ADDRESS:PORT[,ADDRESS:PORT...]; connections are dealt out to them in turn. Each client prints one JSON
// object. `open` says "open" on a line of its own when all connections are there, waits for a line on its standard input,
// asks once more on each of them, and prints its object then.
//
// Both ends do as little as they can, as what is between them is to be measured: bytes are thrown away where they arrive,
// without a copy, and a request is one system call to send and one to receive.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace {

using base::Result;
using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

constexpr int kBacklog = 4096;
constexpr size_t kRequestBytes = 128;
constexpr size_t kAnswerBytes = 1024;
constexpr size_t kBulkBytes = size_t{256} << 10U;  // at most, with one system call
constexpr size_t kOpening = 256;                   // connections of `open` at a time
constexpr size_t kMostFailures = 1000;             // before a client gives up
constexpr std::chrono::milliseconds kWarmUp(300);  // of `bulk`: buffers and windows grow
constexpr std::chrono::seconds kPatience(10);      // without any event, before a client gives up

// What a connection is for: the first byte that the client sends.
enum class Kind : char { Unknown, Listener, Keep = 'k', Close = 'c', Down = 'd', Up = 'u' };

struct Wish {
  std::vector<sockaddr_in> targets;
  size_t connections = 0;
  std::chrono::duration<double> seconds{};
  Kind kind = Kind::Keep;
};

class Poller {
 public:
  static Result<Poller> open() {
    base::Fd fd(::epoll_create1(EPOLL_CLOEXEC));
    if (!fd) return base::fail_errno("epoll_create1");
    return Poller(std::move(fd));
  }

  Result<> set(int operation, int fd, uint32_t events, size_t key) {
    epoll_event event{.events = events, .data = {.u64 = key}};
    if (::epoll_ctl(fd_.get(), operation, fd, &event) != 0) return base::fail_errno("epoll_ctl");
    return {};
  }

  // The keys of what is ready, if anything is before `limit` has passed.
  std::span<const epoll_event> wait(std::chrono::milliseconds limit) {
    const int count =
        ::epoll_wait(fd_.get(), events_.data(), int{kBatch}, static_cast<int>(limit.count()));
    return {events_.data(), static_cast<size_t>(std::max(count, 0))};
  }

 private:
  explicit Poller(base::Fd fd) : fd_(std::move(fd)) {}

  static constexpr int kBatch = 256;
  base::Fd fd_;
  std::array<epoll_event, kBatch> events_{};
};

Result<base::Fd> tcp_socket() {
  base::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return base::fail_errno("socket");
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

const sockaddr* generic(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// As ordinary servers do, from memory of its own: how the kernel lays out what is sent this way is what relays get to see.
ssize_t send_much(int to) {
  static const std::vector<char> kBytes(kBulkBytes);
  return ::send(to, kBytes.data(), kBytes.size(), 0);
}

ssize_t throw_away(int from) { return ::recv(from, nullptr, kBulkBytes, MSG_TRUNC); }

bool would_block(ssize_t done) { return done < 0 && errno == EAGAIN; }

class Server {
 public:
  explicit Server(Poller poller) : poller_(std::move(poller)) {}

  Result<> run(uint16_t port) {
    listener_ = TRY(tcp_socket());
    const int on = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in any{
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
    if (::bind(listener_.get(), generic(any), sizeof any) != 0 ||
        ::listen(listener_.get(), kBacklog) != 0)
      return base::fail_errno("listen on port " + std::to_string(port));
    TRY(add(listener_.get(), Kind::Listener));
    while (true)
      for (const auto& event : poller_.wait(kPatience))
        ready(event.data.u64);
  }

 private:
  struct Connection {
    base::Fd fd;  // not of the listener
    Kind kind = Kind::Unknown;
    size_t received = 0;  // of a request
  };

  Result<> add(int fd, Kind kind) {
    const auto at = static_cast<size_t>(fd);
    if (at >= connections_.size()) connections_.resize(2 * at);
    connections_[at].kind = kind;
    connections_[at].received = 0;
    return poller_.set(EPOLL_CTL_ADD, fd, EPOLLIN, at);
  }

  void ready(size_t key) {
    if (connections_[key].kind == Kind::Listener) return accept_all();
    if (!serve(connections_[key])) connections_[key].fd.reset();
  }

  void accept_all() {
    while (true) {
      base::Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd || !add(fd.get(), Kind::Unknown)) return;
      const int on = 1;
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const auto at = static_cast<size_t>(fd.get());
      connections_[at].fd = std::move(fd);
    }
  }

  // False: the connection is over.
  bool serve(Connection& one) {
    switch (one.kind) {
      case Kind::Down:
        return goes_on(send_much(one.fd.get()));
      case Kind::Up:
        return goes_on(throw_away(one.fd.get()));
      default:
        return read(one);
    }
  }

  static bool goes_on(ssize_t done) { return done > 0 || would_block(done); }

  bool read(Connection& one) {
    const ssize_t size = ::recv(one.fd.get(), buffer_.data(), buffer_.size(), 0);
    if (size <= 0) return would_block(size);
    if (one.kind == Kind::Unknown) one.kind = Kind{buffer_[0]};
    if (one.kind == Kind::Down)
      return poller_.set(EPOLL_CTL_MOD, one.fd.get(), EPOLLOUT, static_cast<size_t>(one.fd.get()))
          .has_value();
    if (one.kind == Kind::Up) return true;
    return answer(one, static_cast<size_t>(size));
  }

  bool answer(Connection& one, size_t size) {
    one.received += size;
    if (one.received < kRequestBytes) return true;
    one.received -= kRequestBytes;
    // Clients ask one thing at a time: there is room for the whole answer.
    return ::send(one.fd.get(), answer_.data(), answer_.size(), 0) == ssize_t{kAnswerBytes} &&
           one.kind == Kind::Keep;
  }

  Poller poller_;
  base::Fd listener_;
  std::vector<Connection> connections_;  // by descriptor
  std::array<char, kAnswerBytes> buffer_{};
  std::array<char, kAnswerBytes> answer_{};
};

Result<> serve(uint16_t port) {
  Server server(TRY(Poller::open()));
  return server.run(port);
}

// Clients, each with one question at a time.
class Asking {
 public:
  Asking(Poller poller, const Wish& wish)
      : poller_(std::move(poller)), wish_(wish), clients_(wish.connections) {
    request_.front() = static_cast<char>(wish.kind);
  }

  // Over the connection that the client has, or over a new one.
  Result<> ask(size_t number) {
    auto& one = clients_[number];
    one.received = 0;
    one.asked = Clock::now();
    if (one.fd) return send(one) ? Result<>() : again(number);
    one.connected = false;
    one.fd = TRY(tcp_socket());
    const auto& target = wish_.targets[number % wish_.targets.size()];
    if (::connect(one.fd.get(), generic(target), sizeof target) != 0 && errno != EINPROGRESS)
      return base::fail_errno("connect");
    // Told once that it is connected, and once for each answer: no other system call is needed.
    return poller_.set(EPOLL_CTL_ADD, one.fd.get(), EPOLLIN | EPOLLOUT | EPOLLET, number);
  }

  // Waits for some answers, and tells of each: answered(client, when it asked, when it had its answer) returns Result<>.
  // A client whose connection fails asks again.
  template <typename Answered>
  Result<> wait(const Answered& answered) {
    const auto ready = poller_.wait(kPatience);
    if (ready.empty()) return base::fail(base::ErrorCode::Timeout, "nothing has happened for long");
    for (const auto& event : ready) {
      const size_t number = event.data.u64;
      const auto step = advance(clients_[number]);
      if (step == Step::Failed) {
        TRY(again(number));
      } else if (step == Step::Answered) {
        TRY(answered(number, clients_[number].asked, clients_[number].answered));
      }
    }
    return {};
  }

  size_t failed() const { return failed_; }

 private:
  struct Client {
    base::Fd fd;
    bool connected = false;
    size_t received = 0;
    Time asked;
    Time answered;
  };
  enum class Step { Waiting, Answered, Failed };

  Result<> send(const Client& one) {
    if (::send(one.fd.get(), request_.data(), request_.size(), 0) != ssize_t{kRequestBytes})
      return base::fail_errno("send");
    return {};
  }

  Step advance(Client& one) {
    if (!one.connected) {
      one.connected = true;
      return send(one) ? Step::Waiting : Step::Failed;
    }
    while (true) {
      const ssize_t size = ::recv(one.fd.get(), buffer_.data(), buffer_.size(), 0);
      if (size < 0) return would_block(size) ? Step::Waiting : Step::Failed;
      if (size == 0) return ended(one);
      one.received += static_cast<size_t>(size);
      if (one.received < kAnswerBytes) continue;
      one.answered = Clock::now();
      if (wish_.kind == Kind::Keep) return Step::Answered;
    }
  }

  Step ended(Client& one) const {
    if (wish_.kind == Kind::Keep || one.received != kAnswerBytes) return Step::Failed;
    one.fd.reset();
    return Step::Answered;
  }

  Result<> again(size_t number) {
    if (++failed_ > kMostFailures)
      return base::fail(base::ErrorCode::Lost, "too many connections fail");
    clients_[number].fd.reset();
    return ask(number);
  }

  Poller poller_;
  const Wish& wish_;
  std::vector<Client> clients_;
  size_t failed_ = 0;
  std::array<char, kRequestBytes> request_{};
  std::array<char, kAnswerBytes> buffer_{};
};

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

Result<> requests(const Wish& wish) {
  Asking asking(TRY(Poller::open()), wish);
  std::vector<Clock::duration> took;
  for (size_t i = 0; i < wish.connections; ++i)
    TRY(asking.ask(i));
  const auto start = Clock::now();
  auto now = start;
  while (now - start < wish.seconds) {
    TRY(asking.wait([&](size_t client, Time asked, Time answered) {
      took.push_back(answered - asked);
      return asking.ask(client);
    }));
    now = Clock::now();
  }
  if (took.empty()) return base::fail(base::ErrorCode::Timeout, "no answers");
  std::ranges::sort(took);
  const double seconds = std::chrono::duration<double>(now - start).count();
  std::printf(R"({"per_second":%.1f,"p50_us":%.2f,"p99_us":%.2f,"max_us":%.2f,"failed":%zu})"
              "\n",
              static_cast<double>(took.size()) / seconds, microseconds(took[took.size() / 2]),
              microseconds(took[took.size() * 99 / 100]), microseconds(took.back()),
              asking.failed());
  return {};
}

// Every client asks once, a few at a time.
Result<> ask_all(Asking& asking, size_t count) {
  size_t next = std::min(count, kOpening);
  for (size_t i = 0; i < next; ++i)
    TRY(asking.ask(i));
  for (size_t done = 0; done < count;) {
    TRY(asking.wait([&](size_t, Time, Time) -> Result<> {
      ++done;
      return next < count ? asking.ask(next++) : Result<>();
    }));
  }
  return {};
}

Result<> open(const Wish& wish) {
  Asking asking(TRY(Poller::open()), wish);
  TRY(ask_all(asking, wish.connections));
  const size_t failed = asking.failed();
  std::puts("open");
  std::fflush(stdout);
  std::getchar();
  TRY(ask_all(asking, wish.connections));
  std::printf(R"({"connections":%zu,"failed":%zu,"lost":%zu})"
              "\n",
              wish.connections, failed, asking.failed() - failed);
  return {};
}

Result<base::Fd> bulk_connection(const sockaddr_in& target, Kind kind) {
  auto fd = TRY(tcp_socket());
  const int flags = ::fcntl(fd.get(), F_GETFL);
  ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK);
  const auto first = static_cast<char>(kind);
  if (::connect(fd.get(), generic(target), sizeof target) != 0 ||
      ::send(fd.get(), &first, 1, 0) != 1)
    return base::fail_errno("connect");
  ::fcntl(fd.get(), F_SETFL, flags);
  return fd;
}

Result<> bulk(const Wish& wish) {
  auto poller = TRY(Poller::open());
  std::vector<base::Fd> connections;
  for (size_t i = 0; i < wish.connections; ++i) {
    connections.push_back(TRY(bulk_connection(wish.targets[i % wish.targets.size()], wish.kind)));
    TRY(poller.set(EPOLL_CTL_ADD, connections.back().get(),
                   wish.kind == Kind::Down ? EPOLLIN : EPOLLOUT, i));
  }
  // Moves bytes for so long; returns how many in a second.
  const auto run = [&](std::chrono::duration<double> wanted) -> Result<double> {
    const auto start = Clock::now();
    double bytes = 0;
    auto now = start;
    for (; now - start < wanted; now = Clock::now()) {
      for (const auto& event : poller.wait(kPatience)) {
        const int fd = connections[event.data.u64].get();
        const ssize_t size = wish.kind == Kind::Down ? throw_away(fd) : send_much(fd);
        if (size > 0) bytes += static_cast<double>(size);
        if (size == 0 || (size < 0 && errno != EAGAIN))
          return base::fail(base::ErrorCode::Lost, "a connection has ended");
      }
    }
    return bytes / std::chrono::duration<double>(now - start).count();
  };
  TRY(run(kWarmUp));
  std::printf(R"({"gbit_per_second":%.3f})"
              "\n",
              TRY(run(wish.seconds)) * 8 / 1e9);
  return {};
}

// Command line

template <typename Number>
bool parse(std::string_view text, Number& out) {
  return std::from_chars(text.data(), text.data() + text.size(), out).ptr ==
             text.data() + text.size() &&
         out > 0;
}

bool parse_target(std::string_view text, sockaddr_in& out) {
  const auto colon = text.find(':');
  uint16_t port = 0;
  if (colon == text.npos || !parse(text.substr(colon + 1), port)) return false;
  out = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
  return ::inet_pton(AF_INET, std::string(text.substr(0, colon)).c_str(), &out.sin_addr) == 1;
}

bool parse_targets(std::string_view text, std::vector<sockaddr_in>& out) {
  while (true) {
    const auto comma = text.find(',');
    if (!parse_target(text.substr(0, comma), out.emplace_back())) return false;
    if (comma == text.npos) return true;
    text.remove_prefix(comma + 1);
  }
}

bool parse_kind(std::string_view text, Kind& out) {
  constexpr std::pair<std::string_view, Kind> kKinds[] = {
      {"keep", Kind::Keep}, {"close", Kind::Close}, {"down", Kind::Down}, {"up", Kind::Up}};
  const auto* const found =
      std::ranges::find(kKinds, text, &std::pair<std::string_view, Kind>::first);
  if (found == std::end(kKinds)) return false;
  out = found->second;
  return true;
}

bool parse_wish(std::span<const char* const> words, Wish& out) {
  double seconds = 0;
  if (words.size() < 2 || !parse_targets(words[0], out.targets) ||
      !parse(words[1], out.connections))
    return false;
  if (words.size() == 2) return true;
  if (words.size() != 4 || !parse(words[2], seconds) || !parse_kind(words[3], out.kind))
    return false;
  out.seconds = std::chrono::duration<double>(seconds);
  return true;
}

constexpr std::string_view kUsage =
    "usage: relay_load serve PORT\n"
    "       relay_load bulk TARGETS N SECONDS down|up\n"
    "       relay_load requests TARGETS N SECONDS keep|close\n"
    "       relay_load open TARGETS N";

Result<> run(std::span<const char* const> words) {
  const std::string_view what = words.empty() ? "" : words.front();
  uint16_t port = 0;
  Wish wish;
  if (what == "serve" && words.size() == 2 && parse(words[1], port)) return serve(port);
  if (!words.empty() && parse_wish(words.subspan(1), wish)) {
    const bool much = wish.kind == Kind::Down || wish.kind == Kind::Up;
    if (what == "bulk" && much) return bulk(wish);
    if (what == "requests" && !much) return requests(wish);
    if (what == "open") return open(wish);
  }
  return base::fail(base::ErrorCode::Invalid, std::string(kUsage));
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const std::span<const char* const> words(argv + 1, static_cast<size_t>(std::max(argc - 1, 0)));
  const auto done = run(words);
  if (!done) std::fprintf(stderr, "relay_load: %s\n", done.error().text.c_str());
  return done ? 0 : 1;
}
