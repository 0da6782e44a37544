#include "daemon/node_setup.h"

#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

namespace proxyd {
namespace {

using namespace std::chrono_literals;

constexpr const char* kHash = "/sys/module/nf_conntrack/parameters/hashsize";
constexpr const char* kCpus = "/sys/devices/system/cpu/online";

std::string sysctl(const std::string& name) { return "/proc/sys/net/netfilter/" + name; }

// A /proc and a /sys of our own.
class FakeNode : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "node-setup-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    write(kCpus, "0-3\n");
    write(kHash, "1024\n");
    for (const char* name : {"nf_conntrack_max", "nf_conntrack_tcp_timeout_established",
                             "nf_conntrack_tcp_timeout_close_wait", "nf_conntrack_tcp_be_liberal",
                             "nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"}) {
      write(sysctl(name), "7\n");
    }
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string read(const std::string& path) {
    std::ifstream file(root_ + path);
    std::string text;
    std::getline(file, text);
    return text;
  }
  void forbid(const std::string& path) {
    std::filesystem::remove(root_ + path);
    std::filesystem::create_directory(root_ + path);  // for root no mode would do
  }

  std::string root_;
};

config::Conntrack nothing() {
  config::Conntrack conntrack;
  conntrack.max_per_core = 0;
  conntrack.min = 0;
  conntrack.tcp_established_timeout = 0s;
  conntrack.tcp_close_wait_timeout = 0s;
  return conntrack;
}

config::Conntrack per_core(int32_t max, int32_t min = 0) {
  config::Conntrack conntrack = nothing();
  conntrack.max_per_core = max;
  conntrack.min = min;
  return conntrack;
}

TEST(ConntrackMax, GrowsWithTheMachineUpToACeilingThatWinsOverTheMinimum) {
  EXPECT_EQ(conntrack_max(per_core(0, 500000), 8), 0);
  EXPECT_EQ(conntrack_max(per_core(32768, 131072), 2), 131072);
  EXPECT_EQ(conntrack_max(per_core(32768, 131072), 8), 262144);
  EXPECT_EQ(conntrack_max(per_core(32768), 64), 1048576);
  EXPECT_EQ(conntrack_max(per_core(32768, 2000000), 8), 2000000);
  EXPECT_EQ(conntrack_max(per_core(2147483647), 1024), 1048576);
}

TEST_F(FakeNode, CpusAreTheOnesOnline) {
  const std::map<std::string, int> cases{
      {"0\n", 1}, {"0-3\n", 4}, {"0-3,8\n", 5}, {"0,2-3,16-31\n", 19}};
  for (const auto& [text, count] : cases) {
    write(kCpus, text);
    EXPECT_EQ(machine_cpus(root_), count) << text;
  }
}

TEST_F(FakeNode, WithoutAListOfCpusTheUsableOnesCount) {
  for (const char* nonsense : {"", "x", "3-1", "0-", "0,,1"}) {
    write(kCpus, nonsense);
    EXPECT_GE(machine_cpus(root_), 1) << nonsense;
  }
  std::filesystem::remove(root_ + kCpus);
  EXPECT_GE(machine_cpus(root_), 1);
}

TEST_F(FakeNode, EverythingThatIsAskedForIsSet) {
  config::Conntrack conntrack = per_core(32768);
  conntrack.tcp_established_timeout = 24h;
  conntrack.tcp_close_wait_timeout = 1h;
  conntrack.tcp_be_liberal = true;
  conntrack.udp_timeout = 2500ms;
  conntrack.udp_stream_timeout = 180s;
  ASSERT_TRUE(set_conntrack(conntrack, root_));
  EXPECT_EQ(read(sysctl("nf_conntrack_max")), "131072");
  EXPECT_EQ(read(kHash), "32768");
  EXPECT_EQ(read(sysctl("nf_conntrack_tcp_timeout_established")), "86400");
  EXPECT_EQ(read(sysctl("nf_conntrack_tcp_timeout_close_wait")), "3600");
  EXPECT_EQ(read(sysctl("nf_conntrack_tcp_be_liberal")), "1");
  EXPECT_EQ(read(sysctl("nf_conntrack_udp_timeout")), "2");
  EXPECT_EQ(read(sysctl("nf_conntrack_udp_timeout_stream")), "180");
}

TEST_F(FakeNode, NothingAskedForNeedsNoFiles) {
  std::filesystem::remove_all(root_ + "/proc");
  std::filesystem::remove_all(root_ + "/sys");
  EXPECT_TRUE(set_conntrack(nothing(), root_));
}

TEST_F(FakeNode, ATableThatIsLargeEnoughStays) {
  write(kHash, "65536\n");
  ASSERT_TRUE(set_conntrack(per_core(32768), root_));
  EXPECT_EQ(read(kHash), "65536");
}

TEST_F(FakeNode, ValuesThatAreRightAreNotWritten) {
  write(sysctl("nf_conntrack_max"), "131072\n");
  write(kHash, "32768\n");
  const auto read_only = std::filesystem::perms::owner_read;
  std::filesystem::permissions(root_ + sysctl("nf_conntrack_max"), read_only);
  const auto before = std::filesystem::last_write_time(root_ + sysctl("nf_conntrack_max"));
  ASSERT_TRUE(set_conntrack(per_core(32768), root_));
  EXPECT_EQ(std::filesystem::last_write_time(root_ + sysctl("nf_conntrack_max")), before);
}

TEST_F(FakeNode, AnyFailureIsAnErrorAndNamesTheFile) {
  forbid(kHash);
  auto done = set_conntrack(per_core(32768), root_);
  ASSERT_FALSE(done);
  EXPECT_TRUE(done.error().text.contains(kHash)) << done.error().text;

  forbid(sysctl("nf_conntrack_max"));
  done = set_conntrack(per_core(32768), root_);
  ASSERT_FALSE(done);
  EXPECT_TRUE(done.error().text.contains("nf_conntrack_max")) << done.error().text;
}

TEST_F(FakeNode, RouteLocalnetIsSetOnce) {
  const std::string path = std::string("/proc/sys/") + kRouteLocalnet;
  write(path, "0\n");
  EXPECT_EQ(allow_localhost_node_ports(root_), true);
  EXPECT_EQ(read(path), "1");
  EXPECT_EQ(allow_localhost_node_ports(root_), false);
  forbid(path);
  const auto refused = allow_localhost_node_ports(root_);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(
      refused.error().text.starts_with("can't set sysctl net/ipv4/conf/all/route_localnet to 1: "));
}

TEST(Families, ModeNftablesNeedsNoIptables) {
  const auto support = probe_families("nftables");
  EXPECT_TRUE(support.v4);
  EXPECT_EQ(support.iptables_error, "");
}

TEST_F(FakeNode, AHashSizeThatIsNoNumberIsAnError) {
  write(kHash, "many\n");
  EXPECT_FALSE(set_conntrack(per_core(32768), root_));
}

}  // namespace
}  // namespace proxyd
