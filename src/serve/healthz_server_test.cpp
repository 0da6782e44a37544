#include "serve/healthz_server.h"

#include <thread>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/test_client.h"

namespace serve {
namespace {

using http::RawClient;
using testing::HasSubstr;
using testing::StartsWith;

class HealthzServerTest : public testing::Test {
 protected:
  auto start() { return start_healthz_server(io_.get_executor(), pages_, config_); }

  boost::asio::io_context io_{1};
  Health health_{std::chrono::seconds(60)};
  HealthPages pages_{
      .health = health_, .healthz_answered = [](int) {}, .livez_answered = [](int) {}};
  config::Config config_;
};

TEST_F(HealthzServerTest, ItAnswersOverTheNetwork) {
  config_.healthz_bind_address = "127.0.0.1:0";
  const auto server = start();
  ASSERT_TRUE(server);
  const uint16_t port = (*server)->port();
  std::jthread loop([this] { io_.run(); });
  EXPECT_THAT(RawClient(port).get("/livez"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(RawClient(port).get("/healthz"), StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_THAT(RawClient(port).get("/other"), HasSubstr("404 page not found"));
  io_.stop();
  loop.join();
}

TEST_F(HealthzServerTest, WithoutAnAddressThereIsNone) {
  config_.healthz_bind_address = "";
  const auto server = start();
  ASSERT_TRUE(server);
  EXPECT_EQ(*server, nullptr);
}

TEST_F(HealthzServerTest, ItFailsHardIfItIsToldTo) {
  const auto holder = http::Server::listen(io_.get_executor(), "127.0.0.1:0", {});
  const std::string address = "127.0.0.1:" + std::to_string(holder->port());
  config_.healthz_bind_address = address;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(start());
  config_.bind_address_hard_fail = true;
  const auto hard = start();
  const std::string what = "failed to start proxy healthz on " + address + ": listen tcp " +
                           address + ": bind: address already in use";
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("\"Healthz server failed\" err=\"" + what + "\""));
  ASSERT_FALSE(hard);
  EXPECT_EQ(hard.error().text, "healthz server failed: " + what);
}

}  // namespace
}  // namespace serve
