#include "backend/userspace/proxier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/iptables/commit.h"
#include "backend/iptables/tables.h"
#include "backend/userspace/image.h"
#include "backend/userspace/test_world.h"
#include "kernel/process.h"

namespace userspace {
namespace {

using build::ip;
using build::key;
using build::service;
using build::slice;
using iptables::Table;
using net::Protocol;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// On the rules of a kernel.
class ProxierTest : public WorldTest {
 protected:
  void SetUp() override {
    WorldTest::SetUp();
    if (engine == nullptr) return;
    if (const auto usable = programs.probe(); !usable)
      GTEST_SKIP() << "needs iptables: " << usable.error().text;
    restart();
  }
  void TearDown() override {
    proxier.reset();
    WorldTest::TearDown();
  }
  void restart() {
    proxier.reset();
    auto opened = Proxier::open(settings(), engine);
    ASSERT_TRUE(opened) << opened.error().text;
    proxier = std::move(*opened);
  }

  // Nothing named: everything is compared.
  backend::SyncReport sync(const std::vector<model::ServiceEntry>& entries,
                           std::set<model::ServiceKey> dirty = {}) {
    const bool full = dirty.empty();
    state = snapshot_of(entries);
    auto report = proxier->sync({.snapshot = state, .dirty = {std::move(dirty)}, .full = full});
    EXPECT_TRUE(report) << report.error().text;
    return report ? std::move(*report) : backend::SyncReport{};
  }

  std::string dump() const { return *programs.save(Table::Nat) + *programs.save(Table::Filter); }
  // Is what the kernel has what is rendered for these ports?
  void expect_as_rendered() const {
    const std::string kernel = dump();
    const auto tables = iptables::Tables::parse_save(kernel);
    for (const auto& chain : chains_of(settings(), *state, AdoptedPorts::parse(kernel))) {
      std::string rules;
      for (const auto& rule : tables[chain.table].at(chain.name).rules)
        rules += rule + "\n";
      EXPECT_EQ(rules, chain.rules);
    }
  }

  static model::ServiceEntry web() {
    return build::entry(service("default/web")
                            .cluster_ip("10.96.0.10")
                            .port("http", 80, 30080)
                            .external_ip("192.168.99.11")
                            .load_balancer("1.2.3.4")
                            .source_range("203.0.113.0/24")
                            .local_external());
  }
  static model::ServiceEntry dns() {
    return build::entry(
        service("kube-system/dns").cluster_ip("10.96.0.11").port("dns", 53, 0, Protocol::Udp));
  }

  iptables::Programs programs{net::Family::V4};
  std::unique_ptr<Proxier> proxier;
  model::SnapshotPtr state;
};

TEST_F(ProxierTest, TheKernelHasWhatIsRendered) {
  const auto report = sync({web(), dns()});
  EXPECT_TRUE(report.full);
  EXPECT_EQ(report.chains, 5U);
  EXPECT_THAT(report.warnings, IsEmpty());
  expect_as_rendered();
  EXPECT_EQ(report.tables[0].total, 1U);
  EXPECT_EQ(report.tables[1].total, report.tables[1].written);
}

TEST_F(ProxierTest, ASecondSyncWritesNothing) {
  sync({web(), dns()});
  const auto again = sync({web(), dns()});
  EXPECT_EQ(again.rules, 0U);
  EXPECT_EQ(again.drift, 0U);
  EXPECT_FALSE(proxier->flushed(true));
}

TEST_F(ProxierTest, ARestartWritesNothing) {
  sync({web(), dns()});
  const std::string before = dump();
  restart();
  const auto report = sync({web(), dns()});
  EXPECT_EQ(report.chains, 0U);
  EXPECT_EQ(report.rules, 0U);
  EXPECT_EQ(iptables::Tables::parse_save(dump()), iptables::Tables::parse_save(before));
}

TEST_F(ProxierTest, APartialSyncWritesOnlyWhatAPortalNeeds) {
  sync({web()});
  const auto added = sync({web(), dns()}, {key("kube-system/dns")});
  EXPECT_FALSE(added.full);
  EXPECT_EQ(added.chains, 2U);
  expect_as_rendered();
  const auto with_endpoint = build::entry(
      build::service("kube-system/dns").cluster_ip("10.96.0.11").port("dns", 53, 0, Protocol::Udp),
      slice("kube-system/dns", "d").port("dns", 53, Protocol::Udp).ready("127.0.0.2"));
  const auto endpoint = sync({web(), with_endpoint}, {key("kube-system/dns")});
  EXPECT_EQ(endpoint.chains, 0U);
  EXPECT_EQ(endpoint.bytes, 0U);
  EXPECT_EQ(endpoint.endpoints, 1U);
  sync({with_endpoint}, {key("default/web")});
  expect_as_rendered();
  EXPECT_THAT(dump(), Not(HasSubstr("default/web")));
}

TEST_F(ProxierTest, AFullSyncRemovesServicesThatAreGone) {
  sync({web(), dns()});
  sync({dns()});
  expect_as_rendered();
  EXPECT_THAT(dump(), Not(HasSubstr("default/web")));
}

TEST_F(ProxierTest, WhatSomebodyElseRemovesIsMended) {
  sync({web(), dns()});
  const auto done = kernel::run({.argv = {"iptables", "-w", "-t", "nat", "-F"}});
  ASSERT_TRUE(done && done->ok());
  EXPECT_TRUE(proxier->flushed(true));
  const auto report = sync({web(), dns()});
  EXPECT_GT(report.drift, 0U);
  EXPECT_FALSE(proxier->flushed(true));
  expect_as_rendered();
}

TEST_F(ProxierTest, ACallerOnThisNodeReachesAnEndpointThroughTheClusterIp) {
  const auto done = kernel::run({.argv = {"ip", "route", "add", "10.96.0.0/16", "dev", "lo"}});
  if (!done || !done->ok()) GTEST_SKIP() << "needs the program ip";
  const auto endpoint = listen_at("127.0.0.2");
  sync({build::entry(service("default/web").cluster_ip("10.96.0.10").port("http", 80),
                     slice("default/web", "w").port("http", 8080).ready("127.0.0.2"))});
  const base::Fd client = connect_to({Protocol::Tcp, ip("10.96.0.10"), 80});
  ASSERT_EQ(errno, 0);
  EXPECT_TRUE(has_caller(endpoint));
}

TEST_F(ProxierTest, WhenRulesCannotBeWrittenTheOldOnesWork) {
  const auto endpoint = listen_at("127.0.0.2");
  const auto serving = [](service object) {
    return build::entry(object.cluster_ip("10.96.0.10").port("http", 80, 30080).node_port_type(),
                        slice("default/web", "w").port("http", 8080).ready("127.0.0.2", "node1"));
  };
  sync({serving(service("default/web").local_external())});
  const std::string before = dump();
  const auto ports = AdoptedPorts::parse(before).all();
  ASSERT_EQ(ports.size(), 2U);
  // No source lets such a name pass.
  const auto impossible =
      build::entry(service("default/x\" --nonsense").cluster_ip("10.96.0.9").port("", 80));
  const auto refused =
      proxier->sync({.snapshot = snapshot_of({serving(service("default/web")), impossible}),
                     .dirty = {},
                     .full = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(iptables::Tables::parse_save(dump())[Table::Nat],
            iptables::Tables::parse_save(before)[Table::Nat]);
  for (const uint16_t port : ports)
    EXPECT_TRUE(leads_to(port, endpoint));
  EXPECT_TRUE(sync({serving(service("default/web"))}, {key("default/web")}).full);
  expect_as_rendered();
  const auto kept = AdoptedPorts::parse(dump()).all();
  ASSERT_EQ(kept.size(), 1U);
  for (const uint16_t port : ports)
    EXPECT_EQ(refuses(port), !kept.contains(port));
}

TEST_F(ProxierTest, AffinityIsTendedOnceAMinute) {
  sync({build::entry(
      service("default/web").cluster_ip("10.96.0.10").port("http", 80).affinity(10))});
  const auto now = std::chrono::steady_clock::now();
  const auto next = proxier->tend(now + std::chrono::minutes(2));
  EXPECT_EQ(next, now + std::chrono::minutes(3));
  sync({dns()});
  EXPECT_EQ(proxier->tend(now + std::chrono::minutes(5)), backend::Backend::Time::max());
}

}  // namespace
}  // namespace userspace
