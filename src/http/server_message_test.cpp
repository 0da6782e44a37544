#include "http/server_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace http {
namespace {

using std::chrono::system_clock;
using testing::ElementsAre;
using testing::IsEmpty;

// "PATH|QUERY", or "-" for what is refused.
std::string taken_apart(std::string_view target) {
  const auto parsed = parse_target(target);
  return parsed ? parsed->path + "|" + parsed->query : "-";
}

TEST(ServerMessage, ATargetHasAPathAndAQuery) {
  EXPECT_EQ(taken_apart("/metrics"), "/metrics|");
  EXPECT_EQ(taken_apart("/healthz?verbose&exclude=ping"), "/healthz|verbose&exclude=ping");
  EXPECT_EQ(taken_apart("/?"), "/|");
}

TEST(ServerMessage, ThePathIsDecodedAndTheQueryIsNot) {
  EXPECT_EQ(taken_apart("/%6detrics?a=%6d"), "/metrics|a=%6d");
}

TEST(ServerMessage, ATargetMayNameTheHost) {
  EXPECT_EQ(taken_apart("http://node:10249/metrics?x"), "/metrics|x");
  EXPECT_EQ(taken_apart("HTTP://node"), "|");
}

TEST(ServerMessage, WhatIsNoTargetIsRefused) {
  for (const auto* target : {"", "metrics", "/%", "/%4", "/%zz", "/%+1", "?verbose"})
    EXPECT_EQ(taken_apart(target), "-") << target;
}

TEST(ServerMessage, AQueryMayHaveANameOftenOrWithoutAValue) {
  EXPECT_THAT(query_values("verbose", "verbose"), ElementsAre(""));
  EXPECT_THAT(query_values("a=1&verbose=&a=2", "a"), ElementsAre("1", "2"));
  EXPECT_THAT(query_values("a=x%20y+z", "a"), ElementsAre("x y z"));
  EXPECT_THAT(query_values("", "a"), IsEmpty());
  EXPECT_THAT(query_values("a=%zz", "a"), IsEmpty());
}

const AnswerContext kContext{.now = system_clock::from_time_t(1794796219)};

TEST(ServerMessage, AnAnswerIsWrittenAsGoWritesIt) {
  EXPECT_EQ(write_answer(not_found(), kContext),
            "HTTP/1.1 404 Not Found\r\n"
            "Content-Type: text/plain; charset=utf-8\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            "Date: Mon, 16 Nov 2026 02:30:19 GMT\r\n"
            "Content-Length: 19\r\n"
            "\r\n"
            "404 page not found\n");
}

TEST(ServerMessage, HeadLeavesOutTheBodyAndKeepsItsLength) {
  auto context = kContext;
  context.head = true;
  const std::string out = write_answer({.body = "ok"}, context);
  EXPECT_THAT(out, testing::HasSubstr("Content-Length: 2\r\n"));
  EXPECT_TRUE(out.ends_with("\r\n\r\n"));
}

TEST(ServerMessage, AnOldClientIsToldThatTheConnectionStays) {
  auto context = kContext;
  context.http_1_0 = true;
  EXPECT_THAT(write_answer({}, context), testing::StartsWith("HTTP/1.0 200 OK\r\n"));
  EXPECT_THAT(write_answer({}, context), testing::HasSubstr("\r\nConnection: keep-alive\r\n"));
}

TEST(ServerMessage, TheEndOfAConnectionIsSaidWhereItIsNotTheRule) {
  auto context = kContext;
  context.keep_alive = false;
  EXPECT_THAT(write_answer({}, context), testing::HasSubstr("\r\nConnection: close\r\n"));
  context.http_1_0 = true;
  EXPECT_THAT(write_answer({}, context), testing::Not(testing::HasSubstr("Connection")));
}

TEST(ServerMessage, ARefusalSaysWhy) {
  EXPECT_EQ(write_refusal(400, "missing required Host header"),
            "HTTP/1.1 400 Bad Request: missing required Host header\r\n"
            "Content-Type: text/plain; charset=utf-8\r\n"
            "Connection: close\r\n"
            "\r\n"
            "400 Bad Request: missing required Host header");
}

}  // namespace
}  // namespace http
