#include "metrics/process.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>

#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fd.h"

namespace metrics {
namespace {

using testing::Contains;
using testing::Key;
using testing::Not;
using testing::Pair;

std::map<std::string, double> values(const std::string& proc) {
  std::map<std::string, double> found;
  for (const auto& family : process_families(proc)) {
    const auto& metric = family.metric.at(0);
    const bool counter = family.type == prometheus::MetricType::Counter;
    found[family.name] = counter ? metric.counter.value : metric.gauge.value;
  }
  return found;
}

// A folder in place of /proc.
class FakeProc {
 public:
  FakeProc() { std::filesystem::create_directories(path_ + "/self/net"); }
  ~FakeProc() { std::filesystem::remove_all(path_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name) << text;
  }
  const std::string& path() const { return path_; }

 private:
  std::string make() {
    std::string pattern = testing::TempDir() + "procXXXXXX";
    return ::mkdtemp(pattern.data());
  }
  std::string path_ = make();
};

TEST(Process, OurOwnNumbersMakeSense) {
  const auto found = values("/proc");
  EXPECT_GT(found.at("process_resident_memory_bytes"), 1 << 20);
  EXPECT_GE(found.at("process_virtual_memory_bytes"), found.at("process_resident_memory_bytes"));
  EXPECT_GE(found.at("process_open_fds"), 3);
  EXPECT_GE(found.at("process_max_fds"), found.at("process_open_fds"));
  EXPECT_GE(found.at("process_cpu_seconds_total"), 0);
  const auto now = static_cast<double>(::time(nullptr));
  EXPECT_NEAR(found.at("process_start_time_seconds"), now, 3600);
}

TEST(Process, AnOpenFileCounts) {
  const double before = values("/proc").at("process_open_fds");
  const base::Fd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(values("/proc").at("process_open_fds"), before + 1);
}

TEST(Process, ANameOfAnyKindDoesNotConfuse) {
  const FakeProc proc;
  proc.write("stat", "cpu 1 2 3\nbtime 1000000\nprocesses 7\n");
  proc.write("self/stat",
             "42 (a) b (c) S 1 42 42 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 3 0 500 8192 2 "
             "18446744073709551615 1 1 0\n");
  const auto found = values(proc.path());
  EXPECT_THAT(found, Contains(Pair("process_cpu_seconds_total", 2)));
  EXPECT_THAT(found, Contains(Pair("process_start_time_seconds", 1000005)));
  EXPECT_THAT(found, Contains(Pair("process_virtual_memory_bytes", 8192)));
}

TEST(Process, NetworkBytesAreFoundByName) {
  const FakeProc proc;
  proc.write("self/net/netstat",
             "TcpExt: A InOctets\nTcpExt: 1 2\n"
             "IpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 1234 5678\n");
  const auto found = values(proc.path());
  EXPECT_THAT(found, Contains(Pair("process_network_receive_bytes_total", 1234)));
  EXPECT_THAT(found, Contains(Pair("process_network_transmit_bytes_total", 5678)));
}

TEST(Process, WhatCannotBeReadIsLeftOut) {
  const FakeProc proc;
  proc.write("self/stat", "42 (x) S 1\n");
  proc.write("self/net/netstat", "IpExt: InOctets\nIpExt:\n");
  const auto found = values(proc.path());
  EXPECT_THAT(found, Not(Contains(Key("process_cpu_seconds_total"))));
  EXPECT_THAT(found, Not(Contains(Key("process_open_fds"))));
  EXPECT_THAT(found, Not(Contains(Key("process_network_receive_bytes_total"))));
}

}  // namespace
}  // namespace metrics
