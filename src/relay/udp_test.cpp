#include "relay/udp.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "relay/datagrams.h"
#include "relay/socket_address.h"
#include "support/builders.h"
#include "support/loopback_address.h"
#include "support/own_network.h"

namespace relay {
namespace {

using build::ip;
using net::Family;
using net::IpAddr;
using std::chrono::milliseconds;

constexpr milliseconds kIdle(250);
constexpr std::chrono::seconds kPatience(10);

// A datagram socket on loopback.
class Socket {
 public:
  explicit Socket(const IpAddr& local, uint16_t port = 0)
      : fd_(::socket(local.family() == Family::V4 ? AF_INET : AF_INET6,
                     SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    const SocketAddress address(local, port);
    EXPECT_EQ(::bind(fd_.get(), address.get(), address.size()), 0) << std::strerror(errno);
    const int megabytes = 4 << 20;
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &megabytes, sizeof megabytes);
  }

  int get() const { return fd_.get(); }
  base::Fd release() { return std::move(fd_); }
  Peer name() const {
    SocketAddress name;
    socklen_t size = SocketAddress::capacity();
    EXPECT_EQ(::getsockname(fd_.get(), name.buffer(), &size), 0);
    return name.peer();
  }

  void send(const Peer& to, std::string_view text) const {
    const SocketAddress address(to.ip, to.port);
    EXPECT_EQ(::sendto(fd_.get(), text.data(), text.size(), 0, address.get(), address.size()),
              static_cast<ssize_t>(text.size()))
        << std::strerror(errno);
  }

  struct Received {
    std::string text;
    Peer from;
  };
  // What waits there, if anything does.
  std::optional<Received> take() const {
    std::string text(70'000, '\0');
    SocketAddress from;
    socklen_t size = SocketAddress::capacity();
    const ssize_t got = ::recvfrom(fd_.get(), text.data(), text.size(), 0, from.buffer(), &size);
    if (got < 0) return std::nullopt;
    text.resize(static_cast<size_t>(got));
    return Received{text, from.peer()};
  }

 private:
  base::Fd fd_;
};

// An own network, as nobody else's datagrams or exhausted ports are wanted here.
class Udp : public build::OwnNetwork, public testing::WithParamInterface<Family> {
 protected:
  void TearDown() override {
    relay_.reset();
    poller_.reset();
    OwnNetwork::TearDown();
  }

  static IpAddr loopback() { return GetParam() == Family::V4 ? ip("127.0.0.1") : ip("::1"); }
  static IpAddr wildcard() { return GetParam() == Family::V4 ? ip("0.0.0.0") : ip("::"); }

  UdpRelay& relay() {
    if (!relay_) {
      poller_ = std::make_unique<Poller>(Poller::open().value());
      relay_.emplace(*poller_, UdpRelay::Settings{.idle = kIdle,
                                                  .clock = [this] { return now_; },
                                                  .take_descriptor = [this] { return take(); },
                                                  .give_descriptor = [this] { ++descriptors_; }});
    }
    return *relay_;
  }

  FrontPtr open_front() {
    // A port that is named stays when the socket is connected and disconnected.
    const uint16_t port = Socket(wildcard()).name().port;
    auto front =
        std::make_shared<Front>(Front::Settings{.name = "default/dns:dns",
                                                .family = GetParam(),
                                                .protocol = net::Protocol::Udp,
                                                .socket = Socket(wildcard(), port).release()});
    EXPECT_TRUE(relay().open(front));
    return front;
  }
  static Peer address(const FrontPtr& front, std::optional<IpAddr> at = {}) {
    SocketAddress name;
    socklen_t size = SocketAddress::capacity();
    EXPECT_EQ(::getsockname(front->socket(), name.buffer(), &size), 0);
    return {at.value_or(loopback()), name.peer().port};
  }
  static TargetPtr target(const Socket& server) {
    return std::make_shared<Target>(server.name().ip, server.name().port);
  }
  static std::shared_ptr<Balancer> list(std::vector<TargetPtr> targets) {
    return std::make_shared<Balancer>(std::move(targets), nullptr);
  }
  FrontPtr open_front(const Socket& server) {
    auto front = open_front();
    front->offer({.balancer = list({target(server)})});
    return front;
  }

  // Lets the relay work until a datagram has come.
  std::optional<Socket::Received> receive(const Socket& socket) {
    const Time end = Clock::now() + kPatience;
    while (Clock::now() < end) {
      if (auto got = socket.take()) return got;
      poller_->poll(Clock::now() + milliseconds(10));
    }
    return std::nullopt;
  }
  std::string text(const Socket& socket) {
    const auto got = receive(socket);
    return got ? got->text : "(nothing)";
  }
  void work_until(const std::function<bool()>& done) {
    const Time end = Clock::now() + kPatience;
    while (!done() && Clock::now() < end)
      poller_->poll(Clock::now() + milliseconds(10));
    EXPECT_TRUE(done());
  }
  // Whatever was sent before has been dealt with. Over loopback it is there when the call that sends it returns.
  void settle() {
    for (int i = 0; i < 3; ++i)
      poller_->poll(Clock::now());
  }

  bool take() {
    if (descriptors_ == 0) return false;
    --descriptors_;
    return true;
  }

  Time now_ = Time() + std::chrono::hours(1);
  int descriptors_ = 100;
  std::unique_ptr<Poller> poller_;
  std::optional<UdpRelay> relay_;
};

INSTANTIATE_TEST_SUITE_P(Families, Udp, testing::ValuesIn(net::kFamilies),
                         [](const auto& of) { return std::string(net::name(of.param)); });

TEST_P(Udp, CarriesDatagramsThereAndBack) {
  const Socket server(loopback());
  const Socket client(loopback());
  const auto front = open_front(server);
  client.send(address(front), "question");
  const auto question = receive(server);
  ASSERT_TRUE(question);
  EXPECT_EQ(question->text, "question");
  EXPECT_NE(question->from, client.name());
  server.send(question->from, "answer");
  const auto answer = receive(client);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->text, "answer");
  EXPECT_EQ(answer->from, address(front));
  EXPECT_EQ(relay().clients(), 1U);
  EXPECT_EQ(descriptors_, 99);
  EXPECT_EQ(front->counters().accepted, 1U);
  EXPECT_EQ(front->counters().failed, 0U);
}

TEST_P(Udp, CarriesEveryLengthWhole) {
  const Socket server(loopback());
  const Socket client(loopback());
  const auto front = open_front(server);
  for (const size_t length : {0U, 1U, 4096U, 4097U, 65'507U}) {
    client.send(address(front), std::string(length, 'x'));
    const auto got = receive(server);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->text.size(), length);
    server.send(got->from, std::string(length, 'y'));
    EXPECT_EQ(text(client), std::string(length, 'y'));
  }
}

// Without it the kernel would not know the answer for one, and the client might take it from nobody else.
TEST_P(Udp, AnswersComeFromTheAddressThatTheClientHasWrittenTo) {
  const bool v4 = GetParam() == Family::V4;
  const std::array own{v4 ? ip("127.0.0.5") : ip("fd00::5"), v4 ? ip("127.0.0.6") : ip("fd00::6")};
  if (!v4) {  // of IPv4, loopback has all of 127.0.0.0/8
    for (const IpAddr& each : own)
      ASSERT_TRUE(build::add_to_loopback(each));
  }
  const Socket server(loopback());
  const Socket client(loopback());
  const auto front = open_front(server);
  for (const IpAddr& at : {own[0], own[1], own[0]}) {
    client.send(address(front, at), "question");
    const auto got = receive(server);
    ASSERT_TRUE(got);
    server.send(got->from, "answer");
    const auto answer = receive(client);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->from, address(front, at));
  }
}

TEST_P(Udp, EachClientHasItsOwnSocket) {
  const Socket server(loopback());
  const auto front = open_front(server);
  std::vector<Socket> clients;
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back(loopback());
    clients.back().send(address(front), std::to_string(i));
  }
  for (int i = 0; i < 50; ++i) {
    const auto got = receive(server);
    ASSERT_TRUE(got);
    server.send(got->from, got->text);
  }
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(text(clients[static_cast<size_t>(i)]), std::to_string(i));
  EXPECT_EQ(relay().clients(), 50U);
}

TEST_P(Udp, CarriesMoreThanABatchInOrder) {
  constexpr int kMany = 1000;
  const Socket server(loopback());
  const std::array clients{Socket(loopback()), Socket(loopback())};
  const auto front = open_front(server);
  std::array<std::vector<std::string>, 2> sent;
  for (int i = 0; i < kMany; ++i) {
    const size_t who = (i / 3) % 2;
    sent[who].push_back(std::to_string(who) + " " + std::to_string(i));
    clients[who].send(address(front), sent[who].back());
    if (i % 20 == 19) settle();
  }
  std::array<std::vector<std::string>, 2> got;
  for (int i = 0; i < kMany; ++i) {
    const std::string one = text(server);
    got[one.front() == '1' ? 1 : 0].push_back(one);
  }
  EXPECT_EQ(got, sent);
}

TEST_P(Udp, NewClientsGetEndpointsInTurnAndKeepThem) {
  const std::array servers{Socket(loopback()), Socket(loopback())};
  const auto front = open_front();
  front->offer({.balancer = list({target(servers[0]), target(servers[1])})});
  const std::array clients{Socket(loopback()), Socket(loopback())};
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < clients.size(); ++i) {
      clients[i].send(address(front), "x");
      EXPECT_EQ(text(servers[i]), "x");
    }
  }
}

TEST_P(Udp, SilentClientsAreForgotten) {
  const std::array servers{Socket(loopback()), Socket(loopback())};
  const auto front = open_front();
  front->offer({.balancer = list({target(servers[0]), target(servers[1])})});
  const Socket client(loopback());
  client.send(address(front), "first");
  EXPECT_EQ(text(servers[0]), "first");
  EXPECT_EQ(relay().tick(now_), now_ + kIdle);
  now_ += kIdle - milliseconds(1);
  EXPECT_EQ(relay().tick(now_), now_ + milliseconds(1));
  EXPECT_EQ(relay().clients(), 1U);
  now_ += milliseconds(1);
  EXPECT_EQ(relay().tick(now_), Time::max());
  EXPECT_EQ(relay().clients(), 0U);
  EXPECT_EQ(descriptors_, 100);
  client.send(address(front), "second");
  EXPECT_EQ(text(servers[1]), "second");
}

TEST_P(Udp, TrafficOfEitherDirectionKeepsAClient) {
  const Socket server(loopback());
  const Socket client(loopback());
  const auto front = open_front(server);
  client.send(address(front), "x");
  const auto first = receive(server);
  ASSERT_TRUE(first);
  for (int i = 0; i < 4; ++i) {
    now_ += kIdle - milliseconds(1);
    if (i % 2 == 0) {
      server.send(first->from, "answer");
      EXPECT_EQ(text(client), "answer");
    } else {
      client.send(address(front), "question");
      EXPECT_EQ(text(server), "question");
    }
    EXPECT_EQ(relay().tick(now_), now_ + kIdle);
    EXPECT_EQ(relay().clients(), 1U);
  }
}

TEST_P(Udp, OnlyTheSilentOnesAreForgotten) {
  const Socket server(loopback());
  const auto front = open_front(server);
  const std::array clients{Socket(loopback()), Socket(loopback()), Socket(loopback())};
  const auto talk = [&](const Socket& client) {
    client.send(address(front), "x");
    EXPECT_EQ(text(server), "x");
  };
  for (const Socket& client : clients)
    talk(client);
  now_ += milliseconds(100);
  talk(clients[0]);
  now_ += milliseconds(150);
  EXPECT_EQ(relay().tick(now_), now_ + milliseconds(100));
  EXPECT_EQ(relay().clients(), 1U);
}

TEST_P(Udp, MovesOnWhenTheEndpointIsGone) {
  const std::array servers{Socket(loopback()), Socket(loopback())};
  const auto front = open_front();
  const std::array targets{target(servers[0]), target(servers[1])};
  front->offer({.balancer = list({targets[0]})});
  const Socket client(loopback());
  client.send(address(front), "one");
  EXPECT_EQ(text(servers[0]), "one");
  front->offer({.balancer = list({targets[1]})});
  targets[0]->leave(Time::max());
  client.send(address(front), "two");
  EXPECT_EQ(text(servers[1]), "two");
  EXPECT_EQ(relay().clients(), 1U);
}

// One that is terminating, for instance, gets no new clients, and keeps those that it has.
TEST_P(Udp, StaysWithAnEndpointThatServesEvenIfItIsOfferedNoMore) {
  const std::array servers{Socket(loopback()), Socket(loopback())};
  const auto front = open_front();
  const std::array targets{target(servers[0]), target(servers[1])};
  front->offer({.balancer = list({targets[0]})});
  const Socket client(loopback());
  client.send(address(front), "one");
  EXPECT_EQ(text(servers[0]), "one");
  front->offer({.balancer = list({targets[1], targets[0]})});
  client.send(address(front), "two");
  EXPECT_EQ(text(servers[0]), "two");
  front->offer({.balancer = list({targets[1]})});
  client.send(address(front), "three");
  EXPECT_EQ(text(servers[0]), "three");
  targets[0]->set_serving(false);
  client.send(address(front), "four");
  EXPECT_EQ(text(servers[1]), "four");
}

TEST_P(Udp, ARefusalLeadsToTheNextEndpointWithAffinityToo) {
  const auto dead = std::make_shared<Target>(loopback(), Socket(loopback()).name().port);
  const Socket server(loopback());
  const auto front = open_front();
  front->offer({.balancer = std::make_shared<Balancer>(
                    std::vector{dead, target(server)},
                    std::make_shared<Affinities>(std::chrono::seconds(100)))});
  const Socket client(loopback());
  client.send(address(front), "lost");
  work_until([&] { return front->counters().accepted == 1 && relay().clients() == 0; });
  EXPECT_EQ(descriptors_, 100);
  client.send(address(front), "found");
  EXPECT_EQ(text(server), "found");
  const Socket another(client.name().ip);  // same address, so same record
  another.send(address(front), "there");
  EXPECT_EQ(text(server), "there");
}

// The first batch learns of the refusal too late. The next one, on its way at once, is told of it.
TEST_P(Udp, ADatagramThatLearnsOfARefusalIsNotLost) {
  std::optional<Socket> mortal(std::in_place, loopback());
  const Socket server(loopback());
  const auto front = open_front();
  front->offer({.balancer = list({target(*mortal), target(server)})});
  const Socket client(loopback());
  client.send(address(front), "one");
  EXPECT_EQ(text(*mortal), "one");
  mortal.reset();
  for (size_t i = 0; i < Datagrams::kMost; ++i)
    client.send(address(front), "lost");
  client.send(address(front), "found");
  EXPECT_EQ(text(server), "found");
}

TEST_P(Udp, WithoutAnEndpointDatagramsAreDropped) {
  const auto front = open_front();
  const Socket client(loopback());
  client.send(address(front), "x");
  work_until([&] { return front->counters().failed == 1; });
  front->offer({.balancer = list({})});
  client.send(address(front), "x");
  work_until([&] { return front->counters().failed == 2; });
  EXPECT_EQ(relay().clients(), 0U);
  EXPECT_EQ(descriptors_, 100);
}

TEST_P(Udp, TriesOtherEndpointsIfThereIsNoWayToOne) {
  const Socket server(loopback());
  const auto unreachable = std::make_shared<Target>(
      GetParam() == Family::V4 ? ip("198.51.100.1") : ip("2001:db8::1"), 53);
  const auto front = open_front();
  const auto reachable = target(server);
  front->offer({.balancer = list({unreachable, unreachable, reachable})});
  const Socket client(loopback());
  client.send(address(front), "x");
  EXPECT_EQ(text(server), "x");
  EXPECT_EQ(front->counters().accepted, 1U);
  EXPECT_EQ(front->counters().retried, 2U);
  front->offer({.balancer = list({unreachable})});
  reachable->leave(Time::max());
  client.send(address(front), "y");
  work_until([&] { return front->counters().failed == 1; });
  EXPECT_EQ(descriptors_, 100);
}

TEST_P(Udp, WithoutDescriptorsNewClientsWaitAndOldOnesGoOn) {
  const Socket server(loopback());
  const auto front = open_front(server);
  descriptors_ = 1;
  const Socket first(loopback());
  const Socket second(loopback());
  first.send(address(front), "one");
  EXPECT_EQ(text(server), "one");
  second.send(address(front), "dropped");
  work_until([&] { return front->counters().failed == 1; });
  first.send(address(front), "two");
  EXPECT_EQ(text(server), "two");
  now_ += kIdle;
  relay().tick(now_);
  second.send(address(front), "three");
  EXPECT_EQ(text(server), "three");
}

TEST_P(Udp, AClosedFrontForgetsItsClientsOnly) {
  const Socket server(loopback());
  const std::array fronts{open_front(server), open_front(server)};
  const Socket client(loopback());
  for (const auto& front : fronts) {
    client.send(address(front), "x");
    EXPECT_EQ(text(server), "x");
  }
  EXPECT_EQ(relay().clients(), 2U);
  relay().close(fronts[0]);
  relay().close(fronts[0]);
  EXPECT_EQ(relay().clients(), 1U);
  EXPECT_EQ(descriptors_, 99);
  client.send(address(fronts[0]), "nobody reads it");
  client.send(address(fronts[1]), "y");
  EXPECT_EQ(text(server), "y");
  EXPECT_FALSE(server.take());
}

TEST_P(Udp, AFrontThatRefusedForAWhileServesAgain) {
  const Socket server(loopback());
  const auto front = open_front(server);
  const Socket client(loopback());
  const SocketAddress nowhere(loopback(), 1);
  ASSERT_EQ(::connect(front->socket(), nowhere.get(), nowhere.size()), 0);
  const SocketAddress at(loopback(), address(front).port);
  ASSERT_EQ(::connect(client.get(), at.get(), at.size()), 0);
  ASSERT_EQ(::send(client.get(), "x", 1, 0), 1);
  EXPECT_LT(::send(client.get(), "x", 1, 0), 0);
  EXPECT_EQ(errno, ECONNREFUSED);
  sockaddr unspecified{};
  unspecified.sa_family = AF_UNSPEC;
  ASSERT_EQ(::connect(front->socket(), &unspecified, sizeof unspecified), 0);
  ASSERT_EQ(::send(client.get(), "y", 1, 0), 1);
  EXPECT_EQ(text(server), "y");
}

TEST_P(Udp, ADestroyedRelayGivesEverythingBack) {
  const Socket server(loopback());
  const auto front = open_front(server);
  const Socket client(loopback());
  client.send(address(front), "x");
  EXPECT_EQ(text(server), "x");
  relay_.reset();
  EXPECT_EQ(descriptors_, 100);
}

}  // namespace
}  // namespace relay
