#include "http/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace http {
namespace {

Url url(std::string_view text) {
  auto parsed = parse_url(text);
  EXPECT_TRUE(parsed) << text << ": " << parsed.error().text;
  return parsed.value_or(Url{});
}

std::string error_of(std::string_view text) {
  const auto parsed = parse_url(text);
  return parsed ? "none: " + parsed->str() : parsed.error().text;
}

TEST(Url, HasSchemeHostPortAndPath) {
  EXPECT_EQ(url("https://10.0.0.1:6443/a/b"),
            (Url{.scheme = "https", .host = "10.0.0.1", .port = 6443, .path = "/a/b"}));
  EXPECT_TRUE(url("HTTPS://x").tls());
  EXPECT_FALSE(url("http://x").tls());
}

TEST(Url, WithoutASchemeIsHttp) {
  EXPECT_EQ(url("localhost:8080").str(), "http://localhost:8080");
  EXPECT_EQ(url("x").str(), "http://x:80");
}

TEST(Url, GetsThePortOfItsScheme) {
  EXPECT_EQ(url("http://x").port, 80);
  EXPECT_EQ(url("https://x").port, 443);
  EXPECT_EQ(url("https://x:").port, 443);
  EXPECT_EQ(url("socks5://x").port, 1080);
}

TEST(Url, KeepsIpv6WithoutItsBrackets) {
  EXPECT_EQ(url("https://[fd00::1]").host, "fd00::1");
  EXPECT_EQ(url("https://[fd00::1]:6443").authority(), "[fd00::1]:6443");
  EXPECT_EQ(url("https://[fe80::1%25eth0]:1").host, "fe80::1%eth0");
}

TEST(Url, LosesSlashesAtTheEndQueryAndFragment) {
  EXPECT_EQ(url("https://x/").path, "");
  EXPECT_EQ(url("https://x/a//").path, "/a");
  EXPECT_EQ(url("https://x/a?b=c#d").path, "/a");
  EXPECT_EQ(url("https://x?b/c").str(), "https://x:443");
}

TEST(Url, DecodesUserAndPassword) {
  const Url read = url("http://me%40here:a%2Fb:c@proxy:3128");
  EXPECT_EQ(read.user, "me@here");
  EXPECT_EQ(read.password, "a/b:c");
  EXPECT_EQ(read.host, "proxy");
  EXPECT_EQ(url("http://a:b@c@proxy").password, "b@c");
}

TEST(Url, IsPrintedWithoutUserAndPassword) {
  EXPECT_EQ(url("http://me:sekret@proxy:1/x").str(), "http://proxy:1/x");
}

TEST(Url, RefusesWhatIsNone) {
  EXPECT_EQ(error_of(""), "invalid URL: no host");
  EXPECT_EQ(error_of("https://"), "invalid URL: no host");
  EXPECT_EQ(error_of("https:///path"), "invalid URL: no host");
  EXPECT_EQ(error_of("https://:443"), "invalid URL: no host");
  EXPECT_EQ(error_of("ftp://x"), "invalid URL: unsupported scheme \"ftp\"");
  EXPECT_EQ(error_of("https://x:y"), "invalid URL: the port is no number from 1 to 65535");
  EXPECT_EQ(error_of("https://x:0"), "invalid URL: the port is no number from 1 to 65535");
  EXPECT_EQ(error_of("https://x:65536"), "invalid URL: the port is no number from 1 to 65535");
  EXPECT_EQ(error_of("https://x:-1"), "invalid URL: the port is no number from 1 to 65535");
  EXPECT_EQ(error_of("https://fd00::1"), "invalid URL: an IPv6 address must stand in brackets");
  EXPECT_EQ(error_of("https://[fd00::1"), "invalid URL: a [ without its ]");
  EXPECT_EQ(error_of("https://[fd00::1]x"), "invalid URL: text behind the ]");
  EXPECT_EQ(error_of("https://[x]"), "invalid URL: no IPv6 address in brackets");
  EXPECT_EQ(error_of("https://[::1%0d%0a]"), "invalid URL: no IPv6 address in brackets");
  EXPECT_EQ(error_of("https://a<b"), "invalid URL: the host has characters that no name has");
}

TEST(Url, RefusesWhatWouldBreakALineOfHttp) {
  for (const std::string_view text : {"https://x/a\r\nHost: y", "https://x y", " https://x",
                                      "https://x\n", "https://x/\x7f", "https://x/\tb"}) {
    EXPECT_EQ(error_of(text), "invalid URL: a space or control character") << text;
  }
  EXPECT_EQ(error_of(std::string_view("https://x\0y", 11)),
            "invalid URL: a space or control character");
}

TEST(Url, ErrorsNeverRepeatAPassword) {
  for (const std::string_view text :
       {"http://me:sekret@x:y", "http://me:sekret/more@x", "http://me:5/sekret@x",
        "http://me:sekret%zz@x", "http://me:sekret%4", "ftp://me:sekret@x", "http://me:sekret@",
        "http://me:sekret@[x", "http://me: sekret@x", "me:sekret@x:y:z"}) {
    EXPECT_THAT(error_of(text), testing::StartsWith("invalid URL: ")) << text;
    EXPECT_THAT(error_of(text), testing::Not(testing::HasSubstr("sekret"))) << text;
  }
}

TEST(Url, EscapesTheValuesOfAQuery) {
  EXPECT_EQ(escape_query("spec.clusterIP!=None"), "spec.clusterIP%21%3DNone");
  EXPECT_EQ(escape_query("a b&c/d~e_f-g+\xc3\xa9"), "a%20b%26c%2Fd~e_f-g%2B%C3%A9");
}

}  // namespace
}  // namespace http
