#include "http/proxy_handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/test_server.h"
#include "http/test_stream.h"

namespace http {
namespace {

using ::testing::HasSubstr;
using namespace std::string_literals;

struct Passed {
  std::string error;  // empty: it worked
  std::string sent;
  std::string left;  // not read
};

Passed pass(const char* proxy, const char* server, std::string answer) {
  boost::asio::io_context io;
  ScriptedStream stream(std::move(answer));
  const Url proxy_url = *parse_url(proxy);
  const Url server_url = *parse_url(server);
  const auto done = await(io, pass_proxy(stream, proxy_url, server_url));
  return {done ? "" : done.error().text, stream.sent, stream.left()};
}

TEST(ProxyHandshake, ConnectNamesTheServerAndLeavesWhatFollowsAlone) {
  const auto got = pass("http://p:3128", "https://api.example:6443",
                        "HTTP/1.1 200 Connection established\r\nX: y\r\n\r\nhello");
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.sent, "CONNECT api.example:6443 HTTP/1.1\r\nHost: api.example:6443\r\n\r\n");
  EXPECT_EQ(got.left, "hello");
}

TEST(ProxyHandshake, UserAndPasswordOfTheProxyGoAlong) {
  const auto got =
      pass("http://me:secret@p:3128", "https://[fd00::1]:6443", "HTTP/1.0 200 OK\r\n\r\n");
  EXPECT_EQ(got.error, "");
  EXPECT_THAT(got.sent, HasSubstr("CONNECT [fd00::1]:6443 "));
  EXPECT_THAT(got.sent, HasSubstr("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"));
}

TEST(ProxyHandshake, ARefusalIsAnErrorWithoutThePassword) {
  const auto got = pass("http://me:secret@p:3128", "https://a", "HTTP/1.1 403 Forbidden\r\n\r\n");
  EXPECT_EQ(got.error, "proxy http://p:3128: the proxy refused to connect: 403 Forbidden");
}

TEST(ProxyHandshake, GarbageAndSilenceAreErrors) {
  EXPECT_THAT(pass("http://p", "https://a", "SSH-2.0\r\n\r\n").error,
              HasSubstr("refused to connect"));
  EXPECT_THAT(pass("http://p", "https://a", "HTTP/1.1 200 OK\r\n").error, HasSubstr("closed"));
  EXPECT_THAT(
      pass("http://p", "https://a", "HTTP/1.1 200 OK\r\nX: " + std::string(50000, 'x')).error,
      HasSubstr("does not end"));
}

TEST(ProxyHandshake, APlainServerBehindAnHttpProxyNeedsNone) {
  EXPECT_EQ(pass("http://p", "http://a", "").sent, "");
  EXPECT_TRUE(in_absolute_form(*parse_url("http://p"), *parse_url("http://a")));
  EXPECT_FALSE(in_absolute_form(*parse_url("socks5://p"), *parse_url("http://a")));
  EXPECT_FALSE(in_absolute_form(std::nullopt, *parse_url("http://a")));
}

TEST(ProxyHandshake, SocksGetsTheNameOrTheAddress) {
  const auto by_name = pass("socks5://p:1080", "https://api:6443",
                            "\x05\x00"
                            "\x05\x00\x00\x01\x7f\x00\x00\x01\x1f\x90rest"s);
  EXPECT_EQ(by_name.error, "");
  EXPECT_EQ(by_name.sent, "\x05\x01\x00\x05\x01\x00\x03\x03"s + "api" + "\x19\x2b");
  EXPECT_EQ(by_name.left, "rest");
  const auto by_address = pass("socks5://p:1080", "https://10.0.0.1:6443",
                               "\x05\x00"
                               "\x05\x00\x00\x03\x02xy\x1f\x90"s);
  EXPECT_EQ(by_address.error, "");
  EXPECT_EQ(by_address.sent, "\x05\x01\x00\x05\x01\x00\x01\x0a\x00\x00\x01\x19\x2b"s);
}

TEST(ProxyHandshake, SocksLogsInWhenAsked) {
  const auto got = pass("socks5://me:pw@p:1080", "https://10.0.0.1",
                        "\x05\x02\x01\x00"
                        "\x05\x00\x00\x01\x7f\x00\x00\x01\x1f\x90"s);
  EXPECT_EQ(got.error, "");
  EXPECT_THAT(got.sent, HasSubstr("\x01\x02me\x02pw"s));
  EXPECT_THAT(pass("socks5://me:pw@p", "https://a", "\x05\x02\x01\x01"s).error,
              HasSubstr("refused our user"));
}

TEST(ProxyHandshake, SocksSaysWhyItCannotConnect) {
  EXPECT_THAT(pass("socks5://p", "https://a", "\x05\x00\x05\x05\x00\x01\x00"s).error,
              HasSubstr("connection refused"));
  EXPECT_THAT(pass("socks5://p", "https://a", "HTTP/1.1 400").error,
              HasSubstr("does not speak SOCKS"));
  EXPECT_THAT(pass("socks5://p", "https://a", "\x05\xff"s).error, HasSubstr("another way"));
}

}  // namespace
}  // namespace http
