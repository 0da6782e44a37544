#include "kube/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/test_server.h"
#include "kube/rate_limit.h"
#include "kube/testing.h"

namespace kube {
namespace {

using base::ErrorCode;
using base::Result;
using event::Async;
using http::await;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

std::string answer(const std::string& head, const std::string& body) {
  return "HTTP/1.1 " + head + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}

class ClientTest : public ::testing::Test {
 protected:
  void start(double qps = -1, int burst = 10) {
    ClientOptions options;
    options.server = *http::parse_url(server.url() + "/prefix");
    options.proxy = proxy;
    options.user_agent = "kube-proxy/v1.36.4 (linux/amd64) kubernetes/test";
    options.accept = "application/json";
    options.content_type = "application/json";
    options.qps = qps;
    options.burst = burst;
    const Tell tell = [this](const Notice& notice) {
      if (notice.verbosity < 6) told += notice.message + "\n";
    };
    auto credentials = Credentials::open({.server = options.server.str()}, tell);
    ASSERT_TRUE(credentials) << credentials.error().text;
    client = make_client(io.get_executor(), options, std::move(*credentials), tell, &observed);
  }

  Result<Response> get(const std::string& path = "/api") {
    const Request request{.path = path, .query = "limit=5"};
    return await(io, client->request(request));
  }

  boost::asio::io_context io;
  http::CannedServer server{io};
  std::optional<http::Url> proxy;
  std::string told;
  Observed observed;
  std::unique_ptr<Client> client;
};

TEST_F(ClientTest, ARequestSaysWhoAsksForWhat) {
  server.answers = {answer("200 OK\r\nContent-Type: application/json", "{}")};
  start();
  const auto got = get();
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->status, 200);
  EXPECT_EQ(got->body, "{}");
  EXPECT_THAT(server.requests.at(0), HasSubstr("GET /prefix/api?limit=5 HTTP/1.1\r\n"));
  EXPECT_THAT(server.requests.at(0), HasSubstr("\r\nHost: 127.0.0.1:"));
  EXPECT_THAT(server.requests.at(0), HasSubstr("\r\nUser-Agent: kube-proxy/v1.36.4 "));
  EXPECT_THAT(server.requests.at(0), Not(HasSubstr("Content-Length")));
}

TEST_F(ClientTest, AConnectionServesSeveralRequests) {
  server.answers = {answer("200 OK", "x")};
  server.hang_up = false;
  start();
  ASSERT_TRUE(get());
  ASSERT_TRUE(get());
  EXPECT_EQ(server.connections, 1);
}

TEST_F(ClientTest, AnIdleConnectionThatTheServerClosedIsReplacedAtOnce) {
  server.answers = {answer("200 OK", "x")};  // and the server hangs up without saying so
  start();
  ASSERT_TRUE(get());
  ASSERT_TRUE(get());
  EXPECT_EQ(server.connections, 2);
}

TEST_F(ClientTest, WhatTheServerAsksToTryAgainIsTriedAgain) {
  server.answers = {answer("429 Too Many Requests\r\nRetry-After: 0", "later"),
                    answer("503 Unavailable\r\nRetry-After: 0", "later"), answer("200 OK", "now")};
  start();
  const auto got = get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->body, "now");
  EXPECT_THAT(told, HasSubstr("asks for patience"));
}

TEST_F(ClientTest, ThatIsNotTriedForever) {
  server.answers = {answer("429 Too Many Requests\r\nRetry-After: 0", "later")};
  start();
  const auto got = get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->status, 429);
  EXPECT_EQ(server.requests.size(), 11);
}

TEST_F(ClientTest, AnErrorWithoutThatIsAnAnswer) {
  server.answers = {answer("500 Internal Server Error", "oops")};
  start();
  const auto got = get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->status, 500);
  EXPECT_EQ(server.requests.size(), 1);
}

TEST_F(ClientTest, ARedirectIsNotFollowed) {
  server.answers = {answer("302 Found\r\nLocation: http://elsewhere/", "")};
  start();
  const auto got = get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->status, 302);
}

TEST_F(ClientTest, WarningsOfTheServerAreTold) {
  server.answers = {answer("200 OK\r\nWarning: 299 - \"v1 Endpoints is \\\"old\\\"\"", "")};
  start();
  ASSERT_TRUE(get());
  EXPECT_EQ(told, "v1 Endpoints is \"old\"\n");
}

TEST_F(ClientTest, AnErrorNamesTheRequest) {
  server.answers = {"garbage\r\n\r\n"};
  start();
  const auto got = get();
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().text,
              HasSubstr("Get \"http://127.0.0.1:" + std::to_string(server.port()) +
                        "/prefix/api?limit=5\": malformed HTTP response"));
}

TEST_F(ClientTest, AnHttpProxyIsToldTheWholeUrlAndItsOwnPassword) {
  proxy = *http::parse_url("http://me:secret@127.0.0.1:" + std::to_string(server.port()));
  server.answers = {answer("200 OK", "by proxy")};
  start();
  const auto got = get();
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_THAT(server.requests.at(0), HasSubstr("GET http://127.0.0.1:"));
  EXPECT_THAT(server.requests.at(0), HasSubstr("Proxy-Authorization: Basic "));
}

Async<std::string> read_all(Stream& stream) {
  std::string out;
  while (true) {
    const auto bytes = co_await stream.read();
    if (!bytes || bytes->empty()) co_return out;
    out += *bytes;
  }
}

TEST_F(ClientTest, AStreamGivesItsBodyAsItComesAndIsNotLimited) {
  server.answers = {
      "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"};
  start(0.001, 1);
  for (int i = 0; i < 3; ++i) {
    const Request request{.path = "/watch"};
    auto stream = await(io, client->stream(request, 300s));
    ASSERT_TRUE(stream) << stream.error().text;
    EXPECT_EQ((*stream)->content_type(), "a/b");
    EXPECT_EQ(await(io, read_all(**stream)), "onetwo");
  }
}

TEST_F(ClientTest, EveryAttemptIsObservedAndThenTheRequest) {
  server.answers = {answer("429 Too Many Requests\r\nRetry-After: 0", "later"),
                    answer("200 OK", "now")};
  start();
  const Request post{.method = "POST", .path = "/events", .query = "", .body = "event"};
  ASSERT_TRUE(await(io, client->request(post)));
  EXPECT_THAT(observed.all, ElementsAre("POST 429", "POST 200 again", "finished POST 5 3"));
  EXPECT_EQ(observed.waited, 0ns);
}

TEST_F(ClientTest, ARequestWithoutAnAnswerIsObservedToo) {
  server.answers = {"garbage\r\n\r\n"};
  start();
  ASSERT_FALSE(get());
  EXPECT_THAT(observed.all, ElementsAre("GET <error>", "finished GET 0 none"));
}

TEST_F(ClientTest, OfAWatchOnlyTheAttemptIsObserved) {
  server.answers = {answer("200 OK", "x")};
  start();
  const Request request{.path = "/watch"};
  ASSERT_TRUE(await(io, client->stream(request, 300s)));
  EXPECT_THAT(observed.all, ElementsAre("GET 200"));
}

TEST_F(ClientTest, WaitingForTheRateLimitIsObserved) {
  server.answers = {answer("200 OK", "x")};
  // A second for each: on a machine under load a request may well take as long as a token of a faster rate.
  start(1, 1);
  ASSERT_TRUE(get());
  ASSERT_TRUE(get());
  EXPECT_GT(observed.waited, 0ns);
}

TEST(RateLimit, LetsABurstThroughAndThenCountsTime) {
  RateLimit::Time now{};
  RateLimit limit(5, 2, now);
  EXPECT_EQ(limit.reserve(now), 0ns);
  EXPECT_EQ(limit.reserve(now), 0ns);
  EXPECT_EQ(limit.reserve(now), 200ms);
  EXPECT_EQ(limit.reserve(now), 400ms);
  EXPECT_EQ(limit.reserve(now += 600ms), 0ns);
  EXPECT_EQ(limit.reserve(now += 10s), 0ns);
  EXPECT_EQ(limit.reserve(now), 0ns);
  EXPECT_EQ(limit.reserve(now), 200ms);
}

TEST(RateLimit, BelowZeroMeansNone) {
  RateLimit limit(-1, 0, {});
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(limit.reserve({}), 0ns);
}

}  // namespace
}  // namespace kube
