#include "cli/subcommand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cli {
namespace {

using testing::ElementsAre;

base::Result<Arguments> parse(std::vector<std::string> args) { return parse_arguments(args); }
std::string error(std::vector<std::string> args) {
  const auto parsed = parse_arguments(args);
  return parsed ? "no error" : parsed.error().text;
}

TEST(Subcommand, TakesFlagsInBothForms) {
  const auto parsed =
      parse({"-f", "m", "--config=c", "--proxy_mode", "iptables", "--cluster-cidr=", "-o=json"});
  ASSERT_TRUE(parsed) << parsed.error().text;
  EXPECT_EQ(parsed->manifests, "m");
  EXPECT_EQ(parsed->overrides.config_file, "c");
  EXPECT_EQ(parsed->overrides.proxy_mode, "iptables");
  EXPECT_EQ(parsed->overrides.cluster_cidr, "");
  EXPECT_FALSE(parsed->overrides.hostname_override);
  EXPECT_TRUE(parsed->json);
  EXPECT_THAT(parsed->families, ElementsAre(net::Family::V4, net::Family::V6));
}

TEST(Subcommand, ErrorsSayWhatIsExpected) {
  EXPECT_EQ(error({}), "no manifests: give a file or a folder with -f");
  EXPECT_EQ(error({"-f"}), "flag needs an argument: -f");
  EXPECT_EQ(error({"-f", "m", "--bogus"}), "unknown flag: --bogus");
  EXPECT_EQ(error({"m"}), "unexpected argument \"m\"; manifests are given with -f");
  EXPECT_EQ(error({"-f", "m", "-o", "xml"}), "-o takes text or json, not \"xml\"");
  EXPECT_EQ(error({"-f", "m", "--family", "ipx"}), "--family takes ipv4 or ipv6, not \"ipx\"");
}

TEST(Subcommand, HelpNeedsNoManifests) { EXPECT_TRUE(parse({"--help"})->help); }

}  // namespace
}  // namespace cli
