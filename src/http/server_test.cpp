#include "http/server.h"

#include <sys/resource.h>

#include <atomic>
#include <deque>
#include <thread>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/test_client.h"

namespace http {
namespace {

using Client = RawClient;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// A server that says what it was asked, and its loop in a thread.
class ServerTest : public testing::Test {
 protected:
  void start(const ServerLimits& limits = {}, const std::string& address = "127.0.0.1:0") {
    auto server = Server::listen(
        io_.get_executor(), address,
        [this](const Incoming& incoming) {
          ++asked_;
          if (incoming.path == "/none") return not_found();
          return text_answer(200, incoming.method + " " + incoming.path + "?" + incoming.query +
                                      " [" + incoming.accept + "] " + incoming.body);
        },
        {.limits = limits});
    ASSERT_TRUE(server) << server.error().text;
    server_.emplace(std::move(*server));
    port_ = server_->port();
    thread_ = std::jthread([this] { io_.run(); });
  }

  ~ServerTest() override {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  boost::asio::io_context io_{1};
  std::optional<Server> server_;
  uint16_t port_ = 0;
  std::atomic<int> asked_ = 0;
  std::jthread thread_;
};

TEST_F(ServerTest, ARequestReachesTheHandler) {
  start();
  Client client(port_);
  client.send(
      "PUT /a%20b?c=d HTTP/1.1\r\nHost: x\r\nAccept: text/plain\r\nContent-Length: 1\r\n\r\n4");
  const std::string answer = client.answer();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(body_of(answer), "PUT /a b?c=d [text/plain] 4");
}

TEST_F(ServerTest, AConnectionServesManyRequests) {
  start();
  Client client(port_);
  for (int i = 0; i < 100; ++i)
    ASSERT_THAT(client.get("/" + std::to_string(i)), HasSubstr("GET /" + std::to_string(i) + "?"));
}

TEST_F(ServerTest, RequestsThatAreSentAtOnceAreAnsweredInOrder) {
  start();
  Client client(port_);
  std::string all;
  for (int i = 0; i < 50; ++i)
    all += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n";
  client.send(all);
  for (int i = 0; i < 50; ++i)
    ASSERT_THAT(client.answer(), HasSubstr("GET /" + std::to_string(i) + "?"));
}

TEST_F(ServerTest, ARequestMayArriveByteByByte) {
  start();
  Client client(port_);
  for (const char c : std::string("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"))
    client.send(std::string_view(&c, 1));
  EXPECT_THAT(client.answer(), HasSubstr("GET /slow"));
}

TEST_F(ServerTest, HeadHasNoBody) {
  start();
  Client client(port_);
  client.send("HEAD /none HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.answer(true), HasSubstr("Content-Length: 19\r\n"));
  EXPECT_THAT(client.get("/next"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(ServerTest, TheConnectionEndsWhenTheClientAsksForIt) {
  start();
  Client client(port_);
  client.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.rest(), HasSubstr("\r\nConnection: close\r\n"));
  Client old(port_);
  old.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(old.rest(), StartsWith("HTTP/1.0 200 OK\r\n"));
}

TEST_F(ServerTest, AClientThatHasSentAllStillGetsItsAnswer) {
  start();
  Client client(port_);
  client.send("GET /half HTTP/1.1\r\nHost: x\r\n\r\n");
  client.send_no_more();
  EXPECT_THAT(client.rest(), EndsWith("GET /half? [] "));
}

TEST_F(ServerTest, ABodyIsAskedForIfTheClientWaitsForThat) {
  start();
  Client client(port_);
  client.send("PUT /v HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
  EXPECT_EQ(client.answer(), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("4");
  EXPECT_THAT(client.answer(), EndsWith("PUT /v? [] 4"));
}

TEST_F(ServerTest, ABodyMayComeInChunks) {
  start();
  Client client(port_);
  client.send(
      "PUT /v HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
      "chunked\r\n\r\n1\r\n4\r\n1\r\n2\r\n0\r\n\r\n");
  EXPECT_THAT(client.answer(), EndsWith(" 42"));
}

TEST_F(ServerTest, GarbageIsRefused) {
  start();
  for (const std::string& garbage :
       {std::string("hello\r\n\r\n"), std::string("GET\r\n\r\n"),
        std::string("\0\1\2\3\r\n\r\n", 8),
        std::string("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 11),  // a TLS client
        std::string("GET / HTTP/9.9\r\nHost: x\r\n\r\n"),
        std::string("GET x HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string("GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nHost x\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")}) {
    Client client(port_);
    client.send(garbage);
    client.send_no_more();
    EXPECT_THAT(client.rest(), StartsWith("HTTP/1.1 400 Bad Request\r\n")) << garbage;
  }
  EXPECT_EQ(asked_, 0);
  EXPECT_THAT(Client(port_).get("/"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(ServerTest, ARequestWithoutAHostIsRefused) {
  start();
  Client client(port_);
  client.send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client.rest(), EndsWith("400 Bad Request: missing required Host header"));
}

TEST_F(ServerTest, RandomBytesDoNoHarm) {
  start({.request = milliseconds(200)});
  uint32_t state = 1;
  for (int i = 0; i < 200; ++i) {
    std::string bytes;
    for (int k = 0; k < 300; ++k) {
      state = state * 1664525 + 1013904223;
      bytes += static_cast<char>(state >> 24);
    }
    Client client(port_);
    client.send(i % 2 == 0 ? bytes : "GET / HTTP/1.1\r\n" + bytes + "\r\n\r\n");
    client.send_no_more();
    client.rest();
  }
  EXPECT_THAT(Client(port_).get("/"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(ServerTest, AHugeHeaderIsRefused) {
  start();
  Client client(port_);
  client.send("GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(1 << 20, 'a') + "\r\n\r\n");
  EXPECT_THAT(client.rest(), StartsWith("HTTP/1.1 431 Request Header Fields Too Large\r\n"));
  Client endless(port_);
  endless.send("GET /" + std::string(200'000, 'a'));
  EXPECT_THAT(endless.rest(), StartsWith("HTTP/1.1 431 "));
}

TEST_F(ServerTest, AHugeBodyIsRefused) {
  start();
  Client client(port_);
  client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n");
  EXPECT_THAT(client.rest(), StartsWith("HTTP/1.1 413 Request Entity Too Large\r\n"));
  EXPECT_EQ(asked_, 0);
}

TEST_F(ServerTest, WhoeverFallsSilentInARequestIsLeft) {
  start({.request = milliseconds(50)});
  Client client(port_);
  client.send("GET / HTTP/1.1\r\nHos");
  EXPECT_EQ(client.rest(), "");
  Client body(port_);
  body.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n123");
  EXPECT_EQ(body.rest(), "");
}

TEST_F(ServerTest, WhoeverDripsBytesIsLeftAllTheSame) {
  start({.request = milliseconds(100)});
  Client client(port_);
  const std::jthread drip([&](const std::stop_token& stop) {
    for (int i = 0; i < 100'000 && !stop.stop_requested(); ++i) {
      client.send(i == 0 ? "GET / HTTP/1.1\r\n" : i % 2 == 0 ? "a: b\r\n" : "");
      std::this_thread::yield();
    }
  });
  EXPECT_THAT(client.rest(), testing::AnyOf("", StartsWith("HTTP/1.1 431 ")));
  EXPECT_EQ(asked_, 0);
}

TEST_F(ServerTest, AnIdleConnectionIsClosed) {
  start({.idle = milliseconds(50)});
  Client client(port_);
  EXPECT_THAT(client.get("/"), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_EQ(client.rest(), "");
}

TEST_F(ServerTest, IdleConnectionsMakeRoomForNewOnes) {
  start({.connections = 4, .settle = milliseconds(0)});
  std::deque<Client> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back(port_);
    ASSERT_THAT(clients.back().get("/"), StartsWith("HTTP/1.1 200 OK")) << i;
  }
  EXPECT_EQ(clients.front().rest(), "");  // the first had to go
  EXPECT_THAT(clients.back().get("/"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(ServerTest, BusyConnectionsKeepOthersWaitingUntilTheyEnd) {
  start({.connections = 2, .request = milliseconds(40)});
  std::deque<Client> slow;
  for (int i = 0; i < 10; ++i) {
    slow.emplace_back(port_);
    slow.back().send("GET / HT");
  }
  EXPECT_THAT(Client(port_).get("/"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(ServerTest, WhoeverDoesNotGetItsRequestSaidMakesRoomToo) {
  start({.connections = 2, .settle = milliseconds(20)});
  std::deque<Client> slow;
  for (int i = 0; i < 10; ++i)
    slow.emplace_back(port_).send("GET / HT");
  EXPECT_THAT(Client(port_).get("/"), StartsWith("HTTP/1.1 200 OK"));  // long before 10 s are over
  EXPECT_EQ(slow.front().rest(), "");
}

TEST_F(ServerTest, ManyConnectionsAreAllServed) {
  start();
  std::deque<Client> clients;
  for (int i = 0; i < 400; ++i)
    clients.emplace_back(port_).send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  for (auto& client : clients)
    ASSERT_THAT(client.rest(), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(ServerTest, DestroyingItClosesEverything) {
  start();
  Client client(port_);
  client.get("/");
  io_.stop();
  thread_.join();
  server_.reset();
  io_.restart();
  io_.run();  // returns: nothing is left to wait for
  EXPECT_EQ(client.rest(), "");
  EXPECT_FALSE(Client(port_).connected());
}

TEST_F(ServerTest, TheWildcardAddressServesBothFamilies) {
  start({}, "0.0.0.0:0");
  EXPECT_THAT(Client(port_).get("/"), StartsWith("HTTP/1.1 200 OK"));
  Client v6(port_, "::1");
  if (!v6.connected()) GTEST_SKIP() << "this machine has no IPv6";
  EXPECT_THAT(v6.get("/"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(ServerTest, AnAddressServesItsOwnFamilyOnly) {
  start();
  EXPECT_FALSE(Client(port_, "::1").connected());
}

TEST_F(ServerTest, ATakenPortIsToldAsGoTellsIt) {
  start();
  const std::string address = "127.0.0.1:" + std::to_string(port_);
  const auto second = Server::listen(io_.get_executor(), address, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().text, "listen tcp " + address + ": bind: address already in use");
}

TEST_F(ServerTest, AForeignAddressIsToldAsGoTellsIt) {
  const auto server = Server::listen(io_.get_executor(), "192.0.2.1:80", {});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().text, "listen tcp 192.0.2.1:80: bind: cannot assign requested address");
}

TEST_F(ServerTest, OneFamilyMeansOneEvenForTheWildcard) {
  const auto v4 = Server::listen(io_.get_executor(), "0.0.0.0:0", {}, {.one_family = true});
  ASSERT_TRUE(v4);
  const std::string port = std::to_string(v4->port());
  EXPECT_FALSE(Client(v4->port(), "::1").connected());
  const auto again =
      Server::listen(io_.get_executor(), "0.0.0.0:" + port, {}, {.one_family = true});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().text, "listen tcp4 0.0.0.0:" + port + ": bind: address already in use");
  if (!Client(v4->port()).connected()) GTEST_SKIP() << "this machine has no IPv6";
  const auto v6 = Server::listen(io_.get_executor(), "[::]:" + port, {}, {.one_family = true});
  EXPECT_TRUE(v6) << v6.error().text;
}

TEST_F(ServerTest, AMoveOfTheServerKeepsItServing) {
  start();
  Server moved(std::move(*server_));
  server_.reset();
  EXPECT_THAT(Client(port_).get("/"), StartsWith("HTTP/1.1 200 OK"));
  io_.stop();
  thread_.join();
}

// How many descriptors this process may have, for the length of a test.
class DescriptorLimit {
 public:
  DescriptorLimit() { ::getrlimit(RLIMIT_NOFILE, &before_); }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  void set(rlim_t limit) const {
    const rlimit changed{.rlim_cur = limit, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &changed);
  }
  void restore() const { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(ServerTest, ItComesBackWhenThereAreDescriptorsAgain) {
  auto server = Server::listen(io_.get_executor(), "127.0.0.1:0",
                               [](const Incoming&) { return text_answer(200, "here"); });
  ASSERT_TRUE(server);
  Client client(server->port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  const DescriptorLimit limit;
  limit.set(3);
  io_.run_one();  // somebody is there, but cannot be accepted
  io_.run_one();  // nor the next time
  limit.restore();
  thread_ = std::jthread([this] { io_.run(); });
  EXPECT_THAT(client.answer(), EndsWith("here"));
  io_.stop();
  thread_.join();
}

TEST_F(ServerTest, ItLeavesSpareDescriptorsToOthers) {
  const base::Fd next(::dup(0));
  const DescriptorLimit limit;
  limit.set(static_cast<rlim_t>(next.get()) + 100);
  const auto listen = [&](size_t spare) {
    return Server::listen(io_.get_executor(), "127.0.0.1:0", {},
                          {.limits = {.spare_descriptors = spare}});
  };
  EXPECT_TRUE(listen(50));
  const auto refused = listen(100);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text, "listen tcp 127.0.0.1:0: socket: too many open files");
}

// Servers that share their places.
class SharedPlacesTest : public ServerTest {
 protected:
  void start(size_t servers, size_t connections, const ServerLimits& limits) {
    const auto places = make_places(io_.get_executor(), connections, limits.settle);
    for (size_t i = 0; i < servers; ++i) {
      auto server = Server::listen(
          io_.get_executor(), "127.0.0.1:0",
          [i](const Incoming&) { return text_answer(200, "server " + std::to_string(i)); },
          {.limits = limits, .places = places});
      ASSERT_TRUE(server) << server.error().text;
      servers_.push_back(std::move(*server));
      ports_.push_back(servers_.back().port());
    }
    thread_ = std::jthread([this] { io_.run(); });
  }

  ~SharedPlacesTest() override {
    io_.stop();
    thread_.join();
    servers_.clear();
  }

  std::vector<Server> servers_;
  std::vector<uint16_t> ports_;
};

TEST_F(SharedPlacesTest, EachServerAnswersWithItsOwnHandler) {
  start(3, 10, {});
  for (size_t i = 0; i < 3; ++i)
    EXPECT_THAT(Client(ports_[i]).get("/"), EndsWith("server " + std::to_string(i)));
}

TEST_F(SharedPlacesTest, SlowClientsOfOneServerLeaveRoomForTheOthers) {
  start(2, 8, {.connections = 4, .settle = seconds(600), .request = seconds(600)});
  std::deque<Client> slow;
  for (int i = 0; i < 300; ++i)
    slow.emplace_back(ports_[0]).send("GET / HT");
  for (int i = 0; i < 20; ++i)
    ASSERT_THAT(Client(ports_[1]).get("/"), EndsWith("server 1"));
}

TEST_F(SharedPlacesTest, SlowClientsOfAllServersMakeRoom) {
  start(4, 4, {.connections = 4, .settle = milliseconds(20), .request = seconds(600)});
  std::deque<Client> slow;
  for (size_t i = 0; i < 80; ++i)
    slow.emplace_back(ports_[i % 4]).send("GET / HT");
  for (size_t i = 0; i < 4; ++i)
    ASSERT_THAT(Client(ports_[i]).get("/"), EndsWith("server " + std::to_string(i)));
}

TEST_F(SharedPlacesTest, IdleClientsOfAnotherServerMakeRoom) {
  start(2, 4, {.connections = 4, .settle = milliseconds(0)});
  std::deque<Client> idle;
  for (int i = 0; i < 4; ++i)
    ASSERT_THAT(idle.emplace_back(ports_[0]).get("/"), EndsWith("server 0"));
  EXPECT_THAT(Client(ports_[1]).get("/"), EndsWith("server 1"));
  EXPECT_EQ(idle.front().rest(), "");
  EXPECT_THAT(idle.back().get("/"), EndsWith("server 0"));
}

}  // namespace
}  // namespace http
