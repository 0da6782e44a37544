#include "config/port_range.h"

#include <gtest/gtest.h>

namespace config {
namespace {

std::string range(std::string_view text) {
  const auto parsed = parse_port_range(text);
  if (!parsed) return parsed.error().text;
  return std::to_string(parsed->first) + ".." + std::to_string(parsed->last);
}

TEST(PortRange, HasThreeForms) {
  EXPECT_EQ(range("300"), "300..300");
  EXPECT_EQ(range("300-2000"), "300..2000");
  EXPECT_EQ(range("300+5"), "300..305");
  EXPECT_EQ(range(" 1-65535 "), "1..65535");
}

TEST(PortRange, BeginsWithZeroWhereAnyPortWillDo) {
  EXPECT_EQ(range(""), "0..0");
  EXPECT_EQ(range("0"), "0..0");
  EXPECT_EQ(range("0-0"), "0..0");
}

TEST(PortRange, RefusesWhatIsNoRange) {
  EXPECT_EQ(range("1-2+3"), "unable to parse port range: 1-2+3");
  EXPECT_EQ(range("web"), "unable to parse port range: web");
  EXPECT_EQ(range("-5"), "unable to parse port range: -5");
  EXPECT_EQ(range("5-"), "unable to parse port range: 5-");
  EXPECT_EQ(range("1 - 2"), "unable to parse port range: 1 - 2");
  EXPECT_EQ(range("99999999999"), "unable to parse port range: 99999999999");
}

TEST(PortRange, EndsWithTheLastPort) {
  EXPECT_EQ(range("65536"), "the port range cannot be greater than 65535: 65536");
  EXPECT_EQ(range("65530+6"), "the port range cannot be greater than 65535: 65530+6");
  EXPECT_EQ(range("65530+5"), "65530..65535");
  EXPECT_EQ(range("5-4"), "end port cannot be less than start port: 5-4");
}

}  // namespace
}  // namespace config
