#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "source/api/test_encode.h"
#include "source/api/wire.h"

namespace source::api {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Ge;
using testing::Le;

constexpr std::string_view kProtobuf = "application/vnd.kubernetes.protobuf";
constexpr std::string_view kJson = "application/json";

// In both encodings, which must say the same.
Status status(int http_status, const std::string& json) {
  const auto value = codec::json::parse(json);
  EXPECT_TRUE(value);
  const auto from_json = decode_status(http_status, kJson, json);
  const auto from_proto = decode_status(http_status, kProtobuf, encode::object(*value));
  EXPECT_EQ(from_proto.code, from_json.code);
  EXPECT_EQ(from_proto.reason, from_json.reason);
  EXPECT_EQ(from_proto.message, from_json.message);
  EXPECT_EQ(from_proto.retry_after_s, from_json.retry_after_s);
  EXPECT_EQ(from_proto.resource_version_too_large, from_json.resource_version_too_large);
  return from_proto;
}

TEST(DecodeStatus, ReadsWhatTheServerSays) {
  const auto said = status(429, R"({"kind":"Status","apiVersion":"v1","status":"Failure",
      "message":"too many requests, please try again later","reason":"TooManyRequests",
      "details":{"retryAfterSeconds":7},"code":429})");
  EXPECT_EQ(said.code, 429);
  EXPECT_EQ(said.reason, "TooManyRequests");
  EXPECT_EQ(said.message, "too many requests, please try again later");
  EXPECT_EQ(said.retry_after_s, 7);
  EXPECT_FALSE(said.resource_version_too_large);
}

TEST(DecodeStatus, KnowsAVersionThatIsTooLargeByItsCauseOrItsText) {
  EXPECT_TRUE(status(504, R"({"kind":"Status","apiVersion":"v1","message":"m","reason":"Timeout",
      "details":{"causes":[{"reason":"x"},{"reason":"ResourceVersionTooLarge"}]},"code":504})")
                  .resource_version_too_large);
  EXPECT_TRUE(status(504, R"({"kind":"Status","apiVersion":"v1",
      "message":"Too large resource version: 5, current: 3","reason":"Timeout"})")
                  .resource_version_too_large);
}

TEST(DecodeStatus, FillsInWhatIsMissing) {
  const auto bare = status(404, R"({"kind":"Status","apiVersion":"v1","message":"no"})");
  EXPECT_EQ(bare.code, 404);
  EXPECT_EQ(bare.reason, "NotFound");
  EXPECT_EQ(
      status(410, R"({"kind":"Status","apiVersion":"v1","message":"old","reason":"Gone"})").reason,
      "Gone");
  EXPECT_EQ(status(401, R"({"kind":"Status","apiVersion":"v1","reason":"Unauthorized"})").message,
            "Unauthorized");
}

TEST(DecodeStatus, NegativeNumbersAreNone) {
  const auto odd = status(500, R"({"kind":"Status","apiVersion":"v1","message":"m","code":-5,
      "details":{"retryAfterSeconds":-1}})");
  EXPECT_EQ(odd.code, 500);
  EXPECT_EQ(odd.retry_after_s, 0);
}

TEST(DecodeStatus, CodesHaveTheirReasons) {
  const auto reason = [](int code) { return decode_status(code, "text/plain", "x").reason; };
  EXPECT_EQ(reason(401), "Unauthorized");
  EXPECT_EQ(reason(403), "Forbidden");
  EXPECT_EQ(reason(404), "NotFound");
  EXPECT_EQ(reason(410), "Expired");
  EXPECT_EQ(reason(429), "TooManyRequests");
  EXPECT_EQ(reason(500), "InternalError");
  EXPECT_EQ(reason(502), "InternalError");
  EXPECT_EQ(reason(503), "ServiceUnavailable");
  EXPECT_EQ(reason(504), "Timeout");
  EXPECT_EQ(reason(418), "");
}

TEST(DecodeStatus, OfAForeignAnswerItShowsTheStart) {
  EXPECT_EQ(decode_status(502, "text/html; charset=utf-8", "<html>\r\n<h1>Bad</h1>\n").message,
            R"(the server answered 502 Bad Gateway with text/html: "<html>  <h1>Bad</h1>")");
  EXPECT_EQ(decode_status(503, "", "").message, "the server answered 503 Service Unavailable");
  EXPECT_EQ(decode_status(599, "", "x").message, R"(the server answered 599: "x")");
  EXPECT_EQ(
      decode_status(500, kJson, R"({"error":"x"})").message,
      R"(the server answered 500 Internal Server Error with application/json: "{\"error\":\"x\"}")");
  EXPECT_EQ(
      decode_status(500, kProtobuf, std::string_view("k8s\0\x0a\xff", 6)).message,
      R"(the server answered 500 Internal Server Error with application/vnd.kubernetes.protobuf: "k8s? ?")");
}

TEST(DecodeStatus, AMessageIsShortAndPrintable) {
  const auto hostile = decode_status(500, std::string(500, '\1'), std::string(100'000, '\x1b'));
  EXPECT_LE(hostile.message.size(), 250u);
  EXPECT_THAT(hostile.message, Each(AllOf(Ge(' '), Le('~'))));
  const auto longer = status(500, R"({"kind":"Status","apiVersion":"v1","message":")" +
                                      std::string(5000, 'x') + R"(\n","reason":"a\u0000b"})");
  EXPECT_LE(longer.message.size(), 1000u);
  EXPECT_EQ(longer.reason, "a?b");
}

}  // namespace
}  // namespace source::api
