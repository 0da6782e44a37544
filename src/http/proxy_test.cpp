#include "http/proxy.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace http {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

// The proxy for a server, "direct" or "error: ...".
std::string proxy(std::string_view server, const Variables& variables) {
  const auto environment = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  const auto chosen = proxy_from_environment(parse_url(server).value(), environment);
  if (!chosen) return "error: " + chosen.error().text;
  return *chosen ? (*chosen)->str() : "direct";
}

// Whether NO_PROXY exempts the server.
bool exempt(const std::string& no_proxy, std::string_view server) {
  return proxy(server, {{"HTTPS_PROXY", "p:1"}, {"NO_PROXY", no_proxy}}) == "direct";
}

TEST(Proxy, IsChosenByTheSchemeOfTheServer) {
  const Variables both{{"HTTP_PROXY", "http://plain:1"}, {"HTTPS_PROXY", "http://secure:2"}};
  EXPECT_EQ(proxy("http://x", both), "http://plain:1");
  EXPECT_EQ(proxy("https://x", both), "http://secure:2");
  EXPECT_EQ(proxy("https://x", {{"HTTP_PROXY", "http://plain:1"}}), "direct");
  EXPECT_EQ(proxy("https://x", {}), "direct");
}

TEST(Proxy, UpperCaseComesBeforeLowerAndEmptyIsNotThere) {
  EXPECT_EQ(proxy("https://x", {{"https_proxy", "low:1"}}), "http://low:1");
  EXPECT_EQ(proxy("https://x", {{"HTTPS_PROXY", "up:1"}, {"https_proxy", "low:1"}}), "http://up:1");
  EXPECT_EQ(proxy("https://x", {{"HTTPS_PROXY", ""}, {"https_proxy", "low:1"}}), "http://low:1");
  EXPECT_EQ(proxy("https://x", {{"HTTPS_PROXY", "up:1"}, {"no_proxy", "x"}}), "direct");
}

TEST(Proxy, WithoutASchemeIsHttp) {
  EXPECT_EQ(proxy("https://x", {{"HTTPS_PROXY", "p"}}), "http://p:80");
  EXPECT_EQ(proxy("https://x", {{"HTTPS_PROXY", "socks5://p"}}), "socks5://p:1080");
}

TEST(Proxy, IsNeverUsedForThisMachine) {
  for (const std::string_view server :
       {"https://localhost", "https://127.0.0.1:6443", "https://127.9.9.9", "https://[::1]:6443"}) {
    EXPECT_EQ(proxy(server, {{"HTTPS_PROXY", "p"}}), "direct") << server;
  }
}

TEST(NoProxy, StarExemptsEverything) {
  EXPECT_TRUE(exempt("*", "https://x"));
  EXPECT_TRUE(exempt("a, * ,b", "https://10.0.0.1"));
  EXPECT_FALSE(exempt("", "https://x"));
  EXPECT_FALSE(exempt(",, ,", "https://x"));
}

TEST(NoProxy, ANameExemptsItselfAndItsSubDomains) {
  EXPECT_TRUE(exempt("example.com", "https://example.com"));
  EXPECT_TRUE(exempt("EXAMPLE.com", "https://api.Example.COM"));
  EXPECT_FALSE(exempt("example.com", "https://notexample.com"));
  EXPECT_FALSE(exempt("example.com", "https://example.com.evil.org"));
}

TEST(NoProxy, ALeadingDotExemptsSubDomainsOnly) {
  EXPECT_TRUE(exempt(".example.com", "https://api.example.com"));
  EXPECT_FALSE(exempt(".example.com", "https://example.com"));
  EXPECT_TRUE(exempt("*.example.com", "https://api.example.com"));
  EXPECT_FALSE(exempt("*.example.com", "https://example.com"));
}

TEST(NoProxy, AddressesAndCidrsExemptAddresses) {
  EXPECT_TRUE(exempt("10.0.0.1", "https://10.0.0.1"));
  EXPECT_FALSE(exempt("10.0.0.1", "https://10.0.0.10"));
  EXPECT_TRUE(exempt("10.0.0.0/8", "https://10.1.2.3"));
  EXPECT_FALSE(exempt("10.0.0.0/8", "https://11.1.2.3"));
  EXPECT_TRUE(exempt("fd00::1", "https://[fd00::1]"));
  EXPECT_TRUE(exempt("fd00::/16", "https://[fd00::1]"));
  EXPECT_TRUE(exempt("fe80::/10", "https://[fe80::1%25eth0]"));
  EXPECT_FALSE(exempt("10.0.0.0/8", "https://example.com"));
  // A suffix of an address is no sub-domain.
  EXPECT_FALSE(exempt("0.1", "https://10.0.0.1"));
}

TEST(NoProxy, APortLimitsAnEntry) {
  EXPECT_TRUE(exempt("example.com:6443", "https://example.com:6443"));
  EXPECT_FALSE(exempt("example.com:6443", "https://example.com"));
  EXPECT_TRUE(exempt("example.com:443", "https://example.com"));
  EXPECT_TRUE(exempt("10.0.0.1:443", "https://10.0.0.1"));
  EXPECT_FALSE(exempt("10.0.0.1:80", "https://10.0.0.1"));
  EXPECT_TRUE(exempt("[fd00::1]:443", "https://[fd00::1]"));
  EXPECT_FALSE(exempt(":443", "https://example.com"));
}

TEST(Proxy, AnAddressThatCannotBeReadIsToldWithoutItsPassword) {
  const std::string error = proxy("https://x", {{"HTTPS_PROXY", "http://me:sekret@p:y"}});
  EXPECT_EQ(error, "error: HTTPS_PROXY: invalid URL: the port is no number from 1 to 65535");
}

}  // namespace
}  // namespace http
