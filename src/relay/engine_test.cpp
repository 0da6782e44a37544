#include "relay/engine.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "relay/connection.h"
#include "relay/socket_address.h"
#include "relay/tcp.h"
#include "support/builders.h"
#include "support/own_network.h"

namespace relay {
namespace {

using build::ip;
using net::Family;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kPatienceOfTests(20);

// One end of a connection, with blocking calls that give up after a while.
class Stream {
 public:
  explicit Stream(base::Fd fd) : fd_(std::move(fd)) {
    const timeval patience{.tv_sec = kPatienceOfTests.count()};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }

  static Stream to(const Peer& peer) {
    const SocketAddress address(peer.ip, peer.port);
    base::Fd fd(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), address.get(), address.size()), 0) << std::strerror(errno);
    return Stream(std::move(fd));
  }

  int get() const { return fd_.get(); }

  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      ASSERT_GT(sent, 0) << std::strerror(errno);
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // That many bytes, or fewer if the stream ends before.
  std::string read(size_t count) const {
    std::string text(count, '\0');
    size_t have = 0;
    while (have < count) {
      const ssize_t got = ::recv(fd_.get(), text.data() + have, count - have, 0);
      if (got <= 0) break;
      have += static_cast<size_t>(got);
    }
    text.resize(have);
    return text;
  }
  enum class End { Closed, Reset, StillOpen };
  // How the stream ends.
  End end() const {
    char byte = 0;
    const ssize_t got = ::recv(fd_.get(), &byte, 1, 0);
    if (got == 0) return End::Closed;
    return got < 0 && errno == ECONNRESET ? End::Reset : End::StillOpen;
  }
  void close_writing() const { ASSERT_EQ(::shutdown(fd_.get(), SHUT_WR), 0); }
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    fd_.reset();
  }
  bool readable_within(milliseconds time) const {
    pollfd waited{.fd = fd_.get(), .events = POLLIN};
    return ::poll(&waited, 1, static_cast<int>(time.count())) > 0;
  }

 private:
  base::Fd fd_;
};

// A socket on loopback that listens; the port is the system's choice.
class Listener {
 public:
  explicit Listener(const net::IpAddr& local, int backlog = 64) {
    const SocketAddress address(local, 0);
    fd_ = base::Fd(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(fd_.get(), address.get(), address.size()), 0) << std::strerror(errno);
    EXPECT_EQ(::listen(fd_.get(), backlog), 0);
    SocketAddress name;
    socklen_t size = SocketAddress::capacity();
    EXPECT_EQ(::getsockname(fd_.get(), name.buffer(), &size), 0);
    name_ = name.peer();
  }

  const Peer& name() const { return name_; }
  bool called_within(milliseconds time) const {
    pollfd waited{.fd = fd_.get(), .events = POLLIN};
    return ::poll(&waited, 1, static_cast<int>(time.count())) > 0;
  }
  Stream accept() const {
    EXPECT_TRUE(called_within(kPatienceOfTests));
    return Stream(base::Fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  }
  // For the engine.
  base::Fd release() {
    ::fcntl(fd_.get(), F_SETFL, O_NONBLOCK);
    return std::move(fd_);
  }

 private:
  base::Fd fd_;
  Peer name_;
};

TargetPtr target_at(const Peer& peer) { return std::make_shared<Target>(peer.ip, peer.port); }

// Bytes that are not the same everywhere.
std::string pattern(size_t bytes) {
  std::string text(bytes, '\0');
  uint32_t state = 1;
  for (char& c : text) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return text;
}

class Tcp : public build::OwnNetwork, public testing::WithParamInterface<Family> {
 protected:
  net::IpAddr local() const { return GetParam() == Family::V4 ? ip("127.0.0.1") : ip("::1"); }

  // An engine with one front that offers these.
  void serve(std::vector<TargetPtr> targets, Engine::Settings settings = {.workers = 2},
             bool proxy_protocol = false) {
    auto engine = Engine::start(settings);
    ASSERT_TRUE(engine) << engine.error().text;
    engine_ = *engine;
    Listener listener(local());
    address_ = listener.name();
    front_ = std::make_shared<Front>(
        Front::Settings{.name = "default/web", .family = GetParam(), .socket = listener.release()});
    front_->offer({.balancer = std::make_shared<Balancer>(std::move(targets), nullptr),
                   .proxy_protocol = proxy_protocol});
    ASSERT_TRUE(engine_->open(front_));
  }
  Stream client() const { return Stream::to(address_); }
  void wait_for_connections(uint64_t count) const {
    const auto deadline = Clock::now() + kPatienceOfTests;
    while (engine_->totals().connections != count && Clock::now() < deadline)
      std::this_thread::yield();
    EXPECT_EQ(engine_->totals().connections, count);
  }

  std::shared_ptr<Engine> engine_;
  FrontPtr front_;
  Peer address_;
};

TEST_P(Tcp, CarriesBytesBothWays) {
  const Listener server(local());
  serve({target_at(server.name())});
  const Stream here = client();
  const Stream there = server.accept();
  here.send("question");
  EXPECT_EQ(there.read(8), "question");
  there.send("answer");
  EXPECT_EQ(here.read(6), "answer");
  EXPECT_EQ(front_->counters().accepted, 1U);
}

TEST_P(Tcp, CarriesMuchBothWaysAtOnceAndChangesNothing) {
  const Listener server(local());
  serve({target_at(server.name())});
  const Stream here = client();
  const Stream there = server.accept();
  const std::string up = pattern(8 << 20);
  const std::string down = pattern(9 << 20);
  auto send_up = std::async(std::launch::async, [&] { here.send(up), here.close_writing(); });
  auto send_down = std::async(std::launch::async, [&] { there.send(down), there.close_writing(); });
  auto read_up = std::async(std::launch::async, [&] { return there.read(up.size() + 1); });
  EXPECT_TRUE(here.read(down.size() + 1) == down);
  EXPECT_TRUE(read_up.get() == up);
  wait_for_connections(0);
}

TEST_P(Tcp, PassesOnTheEndOfOneDirectionAndKeepsTheOther) {
  const Listener server(local());
  serve({target_at(server.name())});
  const Stream here = client();
  const Stream there = server.accept();
  here.send("all of it");
  here.close_writing();
  EXPECT_EQ(there.read(100), "all of it");
  there.send("and what came of it");
  there.close_writing();
  EXPECT_EQ(here.read(100), "and what came of it");
  wait_for_connections(0);
}

TEST_P(Tcp, PassesOnTheEndFromTheServer) {
  const Listener server(local());
  serve({target_at(server.name())});
  const Stream here = client();
  const Stream there = server.accept();
  there.send("goodbye");
  there.close_writing();
  EXPECT_EQ(here.read(100), "goodbye");
  here.send("still here");
  EXPECT_EQ(there.read(10), "still here");
}

TEST_P(Tcp, PassesOnAResetOfTheServer) {
  const Listener server(local());
  serve({target_at(server.name())});
  const Stream here = client();
  Stream there = server.accept();
  here.send("hello");
  EXPECT_EQ(there.read(5), "hello");  // a reset before that would mean another endpoint
  there.reset();
  EXPECT_EQ(here.end(), Stream::End::Reset);
  wait_for_connections(0);
}

TEST_P(Tcp, DeliversWhatTheServerHasSentBeforeItsReset) {
  const Listener server(local());
  serve({target_at(server.name())});
  const Stream here = client();
  Stream there = server.accept();
  here.send("too much");
  EXPECT_EQ(there.read(8), "too much");
  there.send("no thanks");
  there.reset();
  EXPECT_EQ(here.read(9), "no thanks");
  EXPECT_EQ(here.end(), Stream::End::Reset);
  wait_for_connections(0);
}

TEST_P(Tcp, PassesOnAResetOfTheClient) {
  const Listener server(local());
  serve({target_at(server.name())});
  Stream here = client();
  const Stream there = server.accept();
  here.reset();
  EXPECT_EQ(there.end(), Stream::End::Reset);
  wait_for_connections(0);
}

TEST_P(Tcp, PassesOnAResetAfterHalfAClose) {
  const Listener server(local());
  serve({target_at(server.name())});
  const Stream here = client();
  Stream there = server.accept();
  here.close_writing();
  EXPECT_EQ(there.end(), Stream::End::Closed);
  there.reset();
  EXPECT_EQ(here.end(), Stream::End::Reset);
  wait_for_connections(0);
}

TEST_P(Tcp, HoldsBackWhoSendsFasterThanTheOtherReads) {
  const Listener server(local());
  serve({target_at(server.name())});
  const Stream here = client();
  const Stream there = server.accept();
  ::fcntl(here.get(), F_SETFL, O_NONBLOCK);
  const std::string piece = pattern(64 << 10);
  size_t sent = 0;
  // Until nothing has gone for a while. It would never end if somebody in between kept all of it.
  for (pollfd waited{.fd = here.get(), .events = POLLOUT}; ::poll(&waited, 1, 300) > 0;) {
    const ssize_t put = ::send(here.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
    if (put > 0) sent += static_cast<size_t>(put);
    ASSERT_LT(sent, size_t{256} << 20);
  }
  here.close_writing();
  EXPECT_EQ(there.read(sent + 1).size(), sent);
}

TEST_P(Tcp, DeliversWhatTheClientHasSentBeforeItWasClosed) {
  const Listener server(local());
  serve({target_at(server.name())});
  const std::string all = pattern(1 << 20);
  std::optional<Stream> here = client();
  const Stream there = server.accept();
  auto reading = std::async(std::launch::async, [&] { return there.read(all.size() + 1); });
  here->send(all);
  here.reset();
  EXPECT_TRUE(reading.get() == all);
}

TEST_P(Tcp, GoesToTheNextEndpointWhenOneRefuses) {
  Peer closed;
  {
    closed = Listener(local()).name();
  }
  const Listener server(local());
  serve({target_at(closed), target_at(server.name())});
  const Stream here = client();
  const Stream there = server.accept();
  here.send("hello");
  EXPECT_EQ(there.read(5), "hello");
  EXPECT_EQ(front_->counters().retried, 1U);
}

// A listener whose queue is full answers no more.
TEST_P(Tcp, GoesToTheNextEndpointWhenOneIsSilent) {
  const Listener silent(local(), 0);
  const Stream filler = Stream::to(silent.name());
  const Listener server(local());
  serve({target_at(silent.name()), target_at(server.name())});
  const Stream here = client();
  const Stream there = server.accept();
  here.send("hello");
  EXPECT_EQ(there.read(5), "hello");
  EXPECT_EQ(front_->counters().retried, 1U);
}

TEST_P(Tcp, SilentEndpointDelaysNobodyElse) {
  const Listener silent(local(), 0);
  const Stream filler = Stream::to(silent.name());
  const Listener server(local());
  serve({target_at(silent.name()), target_at(server.name())}, {.workers = 1});
  const Stream waits = client();
  waits.send("waits");
  const Stream served = client();
  served.send("hello");
  std::string first = server.accept().read(5);
  // Its attempt may be over before the other one is even here.
  if (first == "waits") first = server.accept().read(5);
  EXPECT_EQ(first, "hello");
}

TEST_P(Tcp, ResetsTheClientWhenNoEndpointAnswers) {
  Peer closed;
  {
    closed = Listener(local()).name();
  }
  serve({target_at(closed)});
  EXPECT_EQ(client().end(), Stream::End::Reset);
  EXPECT_EQ(front_->counters().retried, 3U);
  EXPECT_EQ(front_->counters().failed, 1U);
}

TEST_P(Tcp, ResetsTheClientWhenThereIsNoEndpoint) {
  serve({});
  EXPECT_EQ(client().end(), Stream::End::Reset);
}

TEST_P(Tcp, TakesEndpointsInTurn) {
  const Listener one(local());
  const Listener two(local());
  serve({target_at(one.name()), target_at(two.name())});
  std::vector<Stream> clients;
  for (int i = 0; i < 3; ++i) {
    for (const Listener* server : {&one, &two}) {
      clients.push_back(client());
      server->accept();
    }
  }
}

TEST_P(Tcp, TellsTheEndpointWhoTheClientIsIfAsked) {
  const Listener server(local());
  serve({target_at(server.name())}, {}, true);
  const Stream here = client();
  here.send("x");
  SocketAddress name;
  socklen_t size = SocketAddress::capacity();
  ASSERT_EQ(::getsockname(here.get(), name.buffer(), &size), 0);
  const ProxyHeader expected(name.peer(), address_);
  const auto bytes = expected.bytes();
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(server.accept().read(text.size() + 1), text + "x");
}

TEST_P(Tcp, ConnectionsGoOnAfterTheirFrontIsClosed) {
  const Listener server(local());
  serve({target_at(server.name())});
  const Stream here = client();
  const Stream there = server.accept();
  engine_->close({front_});
  front_ = nullptr;
  here.send("hello");
  EXPECT_EQ(there.read(5), "hello");
}

TEST_P(Tcp, ClosedFrontLeavesItsPortToOthers) {
  const Listener server(local());
  serve({target_at(server.name())});
  engine_->close({front_});
  front_ = nullptr;
  const SocketAddress address(address_.ip, address_.port);
  const base::Fd other(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(other.get(), address.get(), address.size()), 0) << std::strerror(errno);
}

TEST_P(Tcp, ResetsConnectionsToATargetThatHasLeftAtItsDeadline) {
  const Listener server(local());
  const auto leaving = target_at(server.name());
  serve({leaving});
  const Stream here = client();
  const Stream there = server.accept();
  const Time deadline = Clock::now() + milliseconds(100);
  leaving->leave(deadline);
  engine_->expect_deadline(deadline);
  EXPECT_EQ(here.end(), Stream::End::Reset);
  EXPECT_EQ(there.end(), Stream::End::Reset);
  EXPECT_GE(Clock::now(), deadline);
}

TEST_P(Tcp, LeavesConnectionsAloneWhoseTargetHasComeBack) {
  const Listener server(local());
  const auto leaving = target_at(server.name());
  serve({leaving});
  const Stream here = client();
  const Stream there = server.accept();
  leaving->leave(Clock::now());
  leaving->come_back();
  engine_->expect_deadline(Clock::now());
  here.send("hello");
  EXPECT_EQ(there.read(5), "hello");
}

// 17 descriptors: the front has one, 2 are for a pipe, and a connection needs 2.
TEST_P(Tcp, NewConnectionsWaitWhileThereAreNoDescriptors) {
  const Listener server(local());
  serve({target_at(server.name())}, {.workers = 2, .descriptors = 17});
  std::vector<Stream> here;
  std::vector<Stream> there;
  for (int i = 0; i < 7; ++i) {
    here.push_back(client());
    there.push_back(server.accept());
  }
  const Stream waiting = client();
  waiting.send("me, too");
  EXPECT_FALSE(server.called_within(milliseconds(100)));
  // The others do not notice.
  here[0].send("hello");
  EXPECT_EQ(there[0].read(5), "hello");
  here.pop_back();
  there.pop_back();
  EXPECT_EQ(server.accept().read(7), "me, too");
}

// There is one pipe, which somebody has whose server does not read.
TEST_P(Tcp, GoesOnWhenThereAreNoPipes) {
  const Listener server(local());
  serve({target_at(server.name())}, {.workers = 1, .descriptors = 17});
  std::vector<Stream> here;
  std::vector<Stream> there;
  for (int i = 0; i < 4; ++i) {
    here.push_back(client());
    there.push_back(server.accept());
  }
  const std::string much = pattern(8 << 20);
  std::vector<std::future<void>> sending;
  for (size_t i = 0; i < here.size(); ++i)
    sending.push_back(std::async(std::launch::async, [&, i] { here[i].send(much); }));
  for (const size_t i : {2, 0, 3, 1})
    EXPECT_TRUE(there[i].read(much.size()) == much) << i;
}

TEST_P(Tcp, ServesManyAtOnce) {
  const Listener server(local(), 512);
  serve({target_at(server.name())}, {.workers = 4, .descriptors = 2048});
  std::vector<Stream> here;
  std::vector<Stream> there;
  for (int i = 0; i < 300; ++i) {
    here.push_back(client());
    here.back().send("hello");
    there.push_back(server.accept());
  }
  for (const auto& stream : there)
    EXPECT_EQ(stream.read(5), "hello");
  wait_for_connections(300);
  here.clear();
  there.clear();
  wait_for_connections(0);
}

INSTANTIATE_TEST_SUITE_P(Families, Tcp, testing::Values(Family::V4, Family::V6),
                         [](const auto& family) { return std::string(net::name(family.param)); });

// A relay that works only when the test lets it: whether it has done all that it can is then no question of time.
class TcpByHand : public build::OwnNetwork, public testing::WithParamInterface<Family> {
 protected:
  void SetUp() override {
    OwnNetwork::SetUp();
    if (IsSkipped()) return;
    auto poller = Poller::open();
    ASSERT_TRUE(poller) << poller.error().text;
    poller_ = std::make_unique<Poller>(*std::move(poller));
    relay_ = std::make_unique<TcpRelay>(*poller_,
                                        TcpRelay::Settings{.sockets = sockets_, .pipes = pipes_});
    server_.emplace(local());
    Listener listener(local());
    address_ = listener.name();
    front_ = std::make_shared<Front>(
        Front::Settings{.name = "default/web", .family = GetParam(), .socket = listener.release()});
    front_->offer(
        {.balancer = std::make_shared<Balancer>(std::vector{target_at(server_->name())}, nullptr)});
    ASSERT_TRUE(relay_->open(front_));
  }
  void TearDown() override {
    relay_.reset();
    OwnNetwork::TearDown();
  }

  static net::IpAddr local() { return GetParam() == Family::V4 ? ip("127.0.0.1") : ip("::1"); }
  void work() {
    poller_->poll(Clock::now() + milliseconds(1));
    relay_->tick(Clock::now());
  }
  void work_until(const std::function<bool()>& done) {
    const Time end = Clock::now() + kPatienceOfTests;
    while (!done() && Clock::now() < end)
      work();
    ASSERT_TRUE(done());
  }
  // Sends pieces until no buffer on the way takes any more. Returns how many bytes went.
  size_t stuff(const Stream& from, std::string_view text) {
    size_t sent = 0;
    for (int idle = 0; idle < 100; ++idle) {
      work();
      const std::string_view piece = text.substr(sent % text.size());
      const ssize_t put =
          ::send(from.get(), piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (put <= 0) continue;
      sent += static_cast<size_t>(put);
      idle = 0;
    }
    return sent;
  }
  // What comes until the end, with the relay at work after each piece.
  std::string read_slowly(const Stream& stream) {
    std::string all;
    std::string piece(16 << 10, '\0');
    const Time end = Clock::now() + kPatienceOfTests;
    while (Clock::now() < end) {
      work();
      const ssize_t got = ::recv(stream.get(), piece.data(), piece.size(), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return all;
      if (got > 0) all.append(piece, 0, static_cast<size_t>(got));
    }
    ADD_FAILURE() << "no end";
    return all;
  }

  Budget sockets_{100};
  Budget pipes_{10};
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<TcpRelay> relay_;
  std::optional<Listener> server_;
  FrontPtr front_;
  Peer address_;
};

TEST_P(TcpByHand, DeliversWhatTheServerHasSentBeforeItsResetToASlowReader) {
  const Stream here = Stream::to(address_);
  work_until([&] { return server_->called_within(milliseconds(0)); });
  Stream there = server_->accept();
  here.send("x");
  work_until([&] { return there.readable_within(milliseconds(0)); });
  EXPECT_EQ(there.read(1), "x");
  const std::string text = pattern(1 << 20);
  const size_t sent = stuff(there, text);
  there.reset();
  int arrived = 0;
  ASSERT_EQ(::ioctl(here.get(), FIONREAD, &arrived), 0);
  // Some of it is lost, as it would be without us; but not what waits in our pipe, and there is an end.
  const std::string got = read_slowly(here);
  EXPECT_GT(got.size(), static_cast<size_t>(arrived));
  EXPECT_LE(got.size(), sent);
  for (size_t at = 0; at < got.size(); at += text.size())
    EXPECT_TRUE(text.starts_with(std::string_view(got).substr(at, text.size()))) << at;
  work_until([&] { return relay_->connections() == 0; });
}

INSTANTIATE_TEST_SUITE_P(Families, TcpByHand, testing::Values(Family::V4, Family::V6),
                         [](const auto& family) { return std::string(net::name(family.param)); });

}  // namespace
}  // namespace relay
