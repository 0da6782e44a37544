#include "relay/proxy_header.h"

#include <string>

#include <gtest/gtest.h>

#include "support/builders.h"

namespace relay {
namespace {

using build::ip;

std::string hex(const ProxyHeader& header) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::byte byte : header.bytes()) {
    out += kDigits[static_cast<size_t>(byte) >> 4];
    out += kDigits[static_cast<size_t>(byte) & 15];
  }
  return out;
}

const std::string kSignature = "0d0a0d0a000d0a515549540a";

TEST(ProxyHeader, TellsWhoTheClientIsOverIpv4) {
  const ProxyHeader header({ip("192.0.2.1"), 0x1234}, {ip("10.96.0.10"), 443});
  EXPECT_EQ(hex(header),
            kSignature + "21" + "11" + "000c" + "c0000201" + "0a60000a" + "1234" + "01bb");
}

TEST(ProxyHeader, TellsWhoTheClientIsOverIpv6) {
  const ProxyHeader header({ip("2001:db8::1"), 0xffff}, {ip("fd00::a"), 80});
  EXPECT_EQ(hex(header), kSignature + "21" + "21" + "0024" + "20010db8000000000000000000000001" +
                             "fd00000000000000000000000000000a" + "ffff" + "0050");
}

}  // namespace
}  // namespace relay
