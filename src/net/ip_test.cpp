#include "net/ip.h"

#include <gtest/gtest.h>

namespace net {
namespace {

std::string canonical(std::string_view text) {
  const auto ip = IpAddr::parse(text);
  return ip ? ip->str() : "invalid";
}
std::string canonical_cidr(std::string_view text) {
  const auto cidr = Cidr::parse(text);
  return cidr ? cidr->str() : "invalid";
}

TEST(IpAddr, PrintsTheCanonicalForm) {
  EXPECT_EQ(canonical("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(canonical("010.000.0.01"), "10.0.0.1");
  EXPECT_EQ(canonical("FD00:0:0::0001"), "fd00::1");
  EXPECT_EQ(canonical("::ffff:1.2.3.4"), "1.2.3.4");
}

TEST(IpAddr, RefusesWhatIsNoAddress) {
  for (const auto* text :
       {"", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1.2.3.x", "fd00::g", "::1%lo", " 1.2.3.4",
        "+1.2.3.4", "1..2.3", "00000000000000000000000000000000000000000000000000::1"}) {
    EXPECT_EQ(canonical(text), "invalid") << text;
  }
}

TEST(IpAddr, RefusesTextBehindAZeroByte) {
  EXPECT_EQ(canonical(std::string_view("fd00::1\0x", 9)), "invalid");
}

TEST(IpAddr, KnowsSpecialAddresses) {
  EXPECT_TRUE(IpAddr::parse("127.9.9.9")->is_loopback());
  EXPECT_TRUE(IpAddr::parse("::1")->is_loopback());
  EXPECT_FALSE(IpAddr::parse("::2")->is_loopback());
  EXPECT_TRUE(IpAddr::parse("::")->is_unspecified());
  EXPECT_TRUE(IpAddr::parse("fe80::1")->is_link_local());
}

TEST(IpAddr, EndpointTextHasBracketsOnlyInIPv6) {
  std::string out;
  append_endpoint(out, *IpAddr::parse("10.0.0.1"), 80);
  out += ' ';
  append_endpoint(out, *IpAddr::parse("fd00::1"), 80);
  EXPECT_EQ(out, "10.0.0.1:80 [fd00::1]:80");
}

TEST(Cidr, ClearsHostBits) {
  EXPECT_EQ(canonical_cidr("10.244.1.7/16"), "10.244.0.0/16");
  EXPECT_EQ(canonical_cidr("fd00:10:244::5/64"), "fd00:10:244::/64");
  EXPECT_EQ(canonical_cidr("1.2.3.4/0"), "0.0.0.0/0");
  EXPECT_EQ(canonical_cidr("1.2.3.4/33"), "invalid");
  EXPECT_EQ(canonical_cidr("1.2.3.4"), "invalid");
  EXPECT_EQ(canonical_cidr("1.2.3.4/-1"), "invalid");
  EXPECT_EQ(canonical_cidr("1.2.3.4/ 8"), "invalid");
}

TEST(Cidr, ContainsOnlyItsFamily) {
  const auto all = Cidr::parse("0.0.0.0/0");
  EXPECT_TRUE(all->contains(*IpAddr::parse("9.9.9.9")));
  EXPECT_FALSE(all->contains(*IpAddr::parse("fd00::1")));
  EXPECT_TRUE(Cidr::parse("10.0.0.0/25")->contains(*IpAddr::parse("10.0.0.127")));
  EXPECT_FALSE(Cidr::parse("10.0.0.0/25")->contains(*IpAddr::parse("10.0.0.128")));
}

}  // namespace
}  // namespace net
