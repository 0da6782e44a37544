#include "serve/patient_server.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "serve/metrics_server.h"

namespace serve {
namespace {

using std::chrono::milliseconds;

http::Answer hello(const http::Incoming&) { return http::text_answer(200, "hello"); }

class PatientServerTest : public testing::Test {
 protected:
  // Takes a port, so that nobody else can have it.
  std::string take_a_port() {
    auto holder = http::Server::listen(io_.get_executor(), "127.0.0.1:0", &hello);
    holder_.emplace(std::move(*holder));
    return "127.0.0.1:" + std::to_string(holder_->port());
  }

  PatientServer::Options options(const std::string& address) {
    return {.address = address,
            .tell_failure = [this](const base::Error& error) { told_.push_back(error.text); },
            .retry = milliseconds(1)};
  }

  boost::asio::io_context io_{1};
  std::optional<http::Server> holder_;
  std::vector<std::string> told_;
};

TEST_F(PatientServerTest, AFreeAddressIsServedAtOnce) {
  const auto server = PatientServer::start(io_.get_executor(), &hello, options("127.0.0.1:0"));
  ASSERT_TRUE(server);
  EXPECT_NE((*server)->port(), 0);
  EXPECT_TRUE(told_.empty());
}

TEST_F(PatientServerTest, ATakenAddressIsServedOnceItIsFree) {
  const std::string address = take_a_port();
  const auto server = PatientServer::start(io_.get_executor(), &hello, options(address));
  ASSERT_TRUE(server);
  EXPECT_EQ((*server)->port(), 0);
  while (told_.size() < 3)
    io_.run_one();
  EXPECT_EQ(told_.back(), "listen tcp " + address + ": bind: address already in use");
  const uint16_t port = holder_->port();
  holder_.reset();
  while ((*server)->port() == 0)
    io_.run_one();
  EXPECT_EQ((*server)->port(), port);
}

TEST_F(PatientServerTest, AHardFailureIsToldAndReturned) {
  auto hard = options(take_a_port());
  hard.hard_fail = true;
  const auto server = PatientServer::start(io_.get_executor(), &hello, hard);
  ASSERT_FALSE(server);
  EXPECT_EQ(told_, std::vector{server.error().text});
}

TEST_F(PatientServerTest, DestroyingItEndsTheTrying) {
  auto server = PatientServer::start(io_.get_executor(), &hello, options(take_a_port()));
  holder_.reset();
  server->reset();
  io_.run();  // returns
  EXPECT_EQ(told_.size(), 1);
}

TEST_F(PatientServerTest, WithoutAnAddressThereIsNoMetricsServer) {
  const metrics::Metrics metrics("iptables");
  config::Config config;
  config.metrics_bind_address = "";
  const auto server = start_metrics_server(io_.get_executor(), {metrics, config});
  ASSERT_TRUE(server);
  EXPECT_EQ(*server, nullptr);
}

TEST_F(PatientServerTest, TheMetricsServerFailsHardIfItIsToldTo) {
  const metrics::Metrics metrics("iptables");
  config::Config config;
  config.metrics_bind_address = take_a_port();
  EXPECT_TRUE(start_metrics_server(io_.get_executor(), {metrics, config}));
  config.bind_address_hard_fail = true;
  EXPECT_FALSE(start_metrics_server(io_.get_executor(), {metrics, config}));
}

}  // namespace
}  // namespace serve
