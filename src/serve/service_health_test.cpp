#include "serve/service_health.h"

#include <malloc.h>
#include <sys/resource.h>

#include <atomic>
#include <deque>
#include <future>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/test_client.h"
#include "serve/healthz_server.h"

namespace serve {
namespace {

using http::body_of;
using http::RawClient;
using model::ServiceKey;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const ServiceKey kWeb{"default", "web"};
const ServiceKey kOther{"default", "other"};

// The loop in a thread, and everything that belongs to it called there.
class ServiceHealthTest : public testing::Test {
 protected:
  template <typename Work>
  auto on_loop(Work work) {
    std::packaged_task<decltype(work())()> task(std::move(work));
    auto done = task.get_future();
    boost::asio::post(io_, std::move(task));
    return done.get();
  }

  ~ServiceHealthTest() override {
    on_loop([this] {
      health_.reset();
      holders_.clear();
    });
    io_.stop();
  }

  ServiceHealth::Options options() {
    return {.proxy_healthy = [this] { return proxy_healthy_.load(); },
            .tell_failure =
                [this](const ServiceKey& key, uint16_t port, const base::Error& error) {
                  told_.push_back(key.str() + " " + std::to_string(port) + " " + error.text);
                }};
  }
  void start(ServiceHealth::Options options) {
    on_loop([&] { health_.emplace(io_.get_executor(), std::move(options)); });
  }
  void start() { start(options()); }

  void update(const HealthPorts& wanted) {
    on_loop([&] { health_->update(wanted); });
  }
  size_t failed() {
    return on_loop([this] { return health_->failed(); });
  }

  // Somebody else's socket, so that nobody can have the port.
  uint16_t take_a_port(const std::string& ip = "0.0.0.0", uint16_t port = 0) {
    return on_loop([&] {
      auto holder = http::Server::listen(io_.get_executor(), ip + ":" + std::to_string(port), {},
                                         {.one_family = true});
      EXPECT_TRUE(holder);
      holders_.push_back(std::move(*holder));
      return holders_.back().port();
    });
  }
  void give_ports_back() {
    on_loop([this] { holders_.clear(); });
  }
  uint16_t free_port() {
    const uint16_t port = take_a_port();
    give_ports_back();
    return port;
  }

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  std::optional<ServiceHealth> health_;
  std::vector<http::Server> holders_;
  std::atomic<bool> proxy_healthy_ = true;
  std::vector<std::string> told_;  // loop thread; read when it has nothing to do
  std::jthread loop_{[this] { io_.run(); }};
};

TEST_F(ServiceHealthTest, ANodeWithEndpointsIsHealthy) {
  start();
  const uint16_t port = free_port();
  update({{kWeb, {port, 3}}});
  const std::string answer = RawClient(port).get("/any/path?query");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                            HasSubstr("\r\nContent-Type: application/json\r\n"),
                            HasSubstr("\r\nX-Content-Type-Options: nosniff\r\n"),
                            HasSubstr("\r\nX-Load-Balancing-Endpoint-Weight: 3\r\n")));
  EXPECT_EQ(body_of(answer),
            "{\n\t\"service\": {\n\t\t\"namespace\": \"default\",\n\t\t\"name\": \"web\"\n\t},\n"
            "\t\"localEndpoints\": 3,\n\t\"serviceProxyHealthy\": true\n}");
}

TEST_F(ServiceHealthTest, ANodeWithoutEndpointsIsNot) {
  start();
  const uint16_t port = free_port();
  update({{kWeb, {port, 0}}});
  EXPECT_THAT(RawClient(port).get("/"),
              AllOf(StartsWith("HTTP/1.1 503 Service Unavailable\r\n"),
                    HasSubstr("\r\nX-Load-Balancing-Endpoint-Weight: 0\r\n"),
                    HasSubstr("\t\"localEndpoints\": 0,\n\t\"serviceProxyHealthy\": true\n}")));
}

TEST_F(ServiceHealthTest, NeitherIsAProxyThatFallsBehind) {
  start();
  const uint16_t port = free_port();
  update({{kWeb, {port, 1}}});
  proxy_healthy_ = false;
  EXPECT_THAT(RawClient(port).get("/"),
              AllOf(StartsWith("HTTP/1.1 503 "),
                    HasSubstr("\t\"localEndpoints\": 1,\n\t\"serviceProxyHealthy\": false\n}")));
}

TEST_F(ServiceHealthTest, AnyMethodWillDo) {
  start();
  const uint16_t port = free_port();
  update({{kWeb, {port, 1}}});
  RawClient client(port);
  client.send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.answer(true), StartsWith("HTTP/1.1 200 OK\r\n"));
  for (const std::string method : {"POST", "PUT", "DELETE", "OPTIONS", "PROBE"}) {
    client.send(method + " /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    EXPECT_THAT(client.answer(), StartsWith("HTTP/1.1 200 OK\r\n")) << method;
  }
}

TEST_F(ServiceHealthTest, ANewCountIsToldOnTheConnectionThatIsThere) {
  start();
  const uint16_t port = free_port();
  update({{kWeb, {port, 1}}});
  RawClient client(port);
  EXPECT_THAT(client.get("/"), StartsWith("HTTP/1.1 200"));
  update({{kWeb, {port, 0}}});
  EXPECT_THAT(client.get("/"), StartsWith("HTTP/1.1 503"));
}

TEST_F(ServiceHealthTest, AServiceThatGoesTakesItsPortAndConnectionsWithIt) {
  start();
  const uint16_t port = free_port();
  const uint16_t other = free_port();
  update({{kWeb, {port, 1}}, {kOther, {other, 1}}});
  RawClient client(port);
  client.get("/");
  RawClient stays(other);
  stays.get("/");
  update({{kOther, {other, 1}}});
  EXPECT_EQ(client.rest(), "");
  EXPECT_FALSE(RawClient(port).connected());
  EXPECT_THAT(stays.get("/"), HasSubstr("\"other\""));
}

TEST_F(ServiceHealthTest, AnotherPortIsOpenedInPlaceOfTheFirst) {
  start();
  const uint16_t before = free_port();
  update({{kWeb, {before, 1}}});
  const uint16_t after = free_port();
  update({{kWeb, {after, 1}}});
  EXPECT_THAT(RawClient(after).get("/"), StartsWith("HTTP/1.1 200"));
  EXPECT_FALSE(RawClient(before).connected());
}

TEST_F(ServiceHealthTest, ServicesMaySwapTheirPorts) {
  start();
  const uint16_t one = free_port();
  const uint16_t two = free_port();
  update({{kWeb, {one, 1}}, {kOther, {two, 1}}});
  update({{kWeb, {two, 1}}, {kOther, {one, 1}}});
  EXPECT_EQ(failed(), 0U);
  EXPECT_THAT(RawClient(two).get("/"), HasSubstr("\"web\""));
  EXPECT_THAT(RawClient(one).get("/"), HasSubstr("\"other\""));
}

TEST_F(ServiceHealthTest, APortThatIsTakenIsToldAndTriedAgainWithEachUpdate) {
  start();
  const uint16_t other = free_port();
  const uint16_t port = take_a_port();
  const HealthPorts wanted{{kOther, {other, 1}}, {kWeb, {port, 1}}};
  update(wanted);
  update(wanted);
  EXPECT_EQ(failed(), 1U);
  const std::string number = std::to_string(port);
  const std::string failure =
      "default/web " + number + " listen tcp4 0.0.0.0:" + number + ": bind: address already in use";
  EXPECT_THAT(told_, ElementsAre(failure, failure));
  EXPECT_THAT(RawClient(other).get("/"), StartsWith("HTTP/1.1 200"));
  give_ports_back();
  update(wanted);
  EXPECT_EQ(failed(), 0U);
  EXPECT_THAT(RawClient(port).get("/"), StartsWith("HTTP/1.1 200"));
}

TEST_F(ServiceHealthTest, AServiceThatFailedAndGoesIsForgotten) {
  start();
  update({{kWeb, {take_a_port(), 1}}});
  update({});
  EXPECT_EQ(failed(), 0U);
  EXPECT_EQ(told_.size(), 1U);
}

TEST_F(ServiceHealthTest, OfTwoServicesWithOnePortTheFirstHasIt) {
  start();
  const uint16_t port = free_port();
  update({{kWeb, {port, 1}}, {kOther, {port, 1}}});
  EXPECT_EQ(failed(), 1U);
  EXPECT_THAT(RawClient(port).get("/"), HasSubstr("\"other\""));
  update({{kWeb, {port, 1}}});
  EXPECT_EQ(failed(), 0U);
  EXPECT_THAT(RawClient(port).get("/"), HasSubstr("\"web\""));
}

TEST_F(ServiceHealthTest, OnlyTheGivenAddressesListen) {
  auto some = options();
  some.everywhere = false;
  some.addresses = {*net::IpAddr::parse("127.0.0.2"), *net::IpAddr::parse("127.0.0.3")};
  start(some);
  const uint16_t port = free_port();
  update({{kWeb, {port, 1}}});
  EXPECT_THAT(RawClient(port, "127.0.0.2").get("/"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(RawClient(port, "127.0.0.3").get("/"), StartsWith("HTTP/1.1 200"));
  EXPECT_FALSE(RawClient(port, "127.0.0.1").connected());
}

TEST_F(ServiceHealthTest, OneAddressThatFailsClosesTheOthers) {
  auto some = options();
  some.everywhere = false;
  some.addresses = {*net::IpAddr::parse("127.0.0.2"), *net::IpAddr::parse("127.0.0.3")};
  start(some);
  const uint16_t port = take_a_port("127.0.0.3");
  update({{kWeb, {port, 1}}});
  EXPECT_EQ(failed(), 1U);
  EXPECT_FALSE(RawClient(port, "127.0.0.2").connected());
  give_ports_back();
  update({{kWeb, {port, 1}}});
  EXPECT_THAT(RawClient(port, "127.0.0.2").get("/"), StartsWith("HTTP/1.1 200"));
}

TEST_F(ServiceHealthTest, WithoutAnAddressNothingListensAndNothingFails) {
  auto none = options();
  none.everywhere = false;
  start(none);
  const uint16_t port = free_port();
  update({{kWeb, {port, 1}}});
  EXPECT_EQ(failed(), 0U);
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_FALSE(RawClient(port).connected());
}

TEST_F(ServiceHealthTest, EachFamilyHasItsOwnSocketAndCount) {
  auto v6 = options();
  v6.family = net::Family::V6;
  start(v6);
  const uint16_t port = free_port();
  update({{kWeb, {port, 6}}});
  if (failed() > 0) GTEST_SKIP() << "this machine has no IPv6";
  std::optional<ServiceHealth> v4;
  on_loop([&] {
    v4.emplace(io_.get_executor(), options());
    v4->update({{kWeb, {port, 4}}});
    EXPECT_EQ(v4->failed(), 0U);
  });
  EXPECT_THAT(RawClient(port, "127.0.0.1").get("/"), HasSubstr("\"localEndpoints\": 4"));
  EXPECT_THAT(RawClient(port, "::1").get("/"), HasSubstr("\"localEndpoints\": 6"));
  on_loop([&] { v4.reset(); });
}

// With the defaults: what a client of a health port can do to the others.
TEST_F(ServiceHealthTest, HundredsOfSlowClientsDoNotKeepOthersFromTheirAnswers) {
  start();
  const uint16_t attacked = free_port();
  const uint16_t other = free_port();
  update({{kWeb, {attacked, 1}}, {kOther, {other, 1}}});
  Health proxy(std::chrono::seconds(60));
  config::Config config;
  config.healthz_bind_address = "127.0.0.1:0";
  auto healthz = on_loop([&] {
    return start_healthz_server(
        io_.get_executor(),
        {.health = proxy, .healthz_answered = [](int) {}, .livez_answered = [](int) {}}, config);
  });
  ASSERT_TRUE(healthz);
  std::deque<RawClient> slow;
  for (int i = 0; i < 300; ++i)
    slow.emplace_back(attacked).send(i % 2 == 0 ? "GET / HTTP/1.1\r\nHo" : "");
  const uint16_t healthz_port = on_loop([&] { return (*healthz)->port(); });
  for (int i = 0; i < 50; ++i) {
    ASSERT_THAT(RawClient(other).get("/"), StartsWith("HTTP/1.1 200"));
    ASSERT_THAT(RawClient(healthz_port).get("/livez"), StartsWith("HTTP/1.1 200"));
  }
  EXPECT_THAT(RawClient(attacked).get("/"), StartsWith("HTTP/1.1 200"));
  on_loop([&] { healthz->reset(); });
}

// An address of this process alone, for more ports than any machine has free in one place.
std::string own_loopback_address() {
  const int number = ::getpid() % 60'000;
  return "127.77." + std::to_string(number / 250) + "." + std::to_string(number % 250 + 1);
}

TEST_F(ServiceHealthTest, ThousandsOfPortsCostLittle) {
  constexpr size_t kPorts = 5000;
  constexpr uint16_t kFirst = 20'000;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < kPorts + 1000) GTEST_SKIP() << "this machine allows too few descriptors";
  const rlimit before =
      std::exchange(limit, {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max});
  ::setrlimit(RLIMIT_NOFILE, &limit);
  auto many = options();
  many.everywhere = false;
  many.addresses = {*net::IpAddr::parse(own_loopback_address())};
  start(many);
  HealthPorts wanted;
  for (size_t i = 0; i < kPorts; ++i)
    wanted.emplace(ServiceKey{"default", "s" + std::to_string(i)},
                   HealthPort{static_cast<uint16_t>(kFirst + i), 1});
  const size_t heap_before = ::mallinfo2().uordblks;
  update(wanted);
  const size_t heap = ::mallinfo2().uordblks - heap_before;
  ASSERT_EQ(failed(), 0U) << told_.front();
  RecordProperty("heap_bytes_per_port", static_cast<int>(heap / kPorts));
  EXPECT_LT(heap / kPorts, 1500U);
  for (const uint16_t offset : {0, 2500, 4999}) {
    const auto port = static_cast<uint16_t>(kFirst + offset);
    EXPECT_THAT(RawClient(port, own_loopback_address()).get("/"), StartsWith("HTTP/1.1 200"));
  }
  wanted[{"default", "s7"}].local_endpoints = 0;
  update(wanted);
  EXPECT_THAT(RawClient(kFirst + 7, own_loopback_address()).get("/"), StartsWith("HTTP/1.1 503"));
  update({});
  EXPECT_FALSE(RawClient(kFirst, own_loopback_address()).connected());
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace serve
