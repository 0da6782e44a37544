// On the real kernel, in a network namespace of its own. Skipped where the kernel has no IPVS: tests/vm runs it in one
// that has.
#include "backend/ipvs/proxier.h"

#include <net/if.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/ipvs/node_addresses.h"
#include "backend/ipvs/text.h"
#include "model/store.h"
#include "support/builders.h"
#include "support/history.h"
#include "support/own_network.h"

namespace ipvs {
namespace {

using backend::Disturbance;
using backend::SyncReport;
using build::ip;
using build::service;
using build::slice;
using net::Family;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr unsigned kLoopback = 1;  // the first device of a namespace

Settings settings(Family family) {
  Settings settings;
  settings.options.family = family;
  settings.options.local_traffic = {
      plan::LocalTraffic::By::Source,
      build::cidr(family == Family::V4 ? "10.244.0.0/16" : "fd00:244::/64"), ""};
  settings.context.family = family;
  settings.context.node_name = "node1";
  settings.context.node_ip = ip(family == Family::V4 ? "172.31.0.11" : "fd00:31::11");
  settings.exclude_cidrs = {build::cidr("192.0.2.0/24")};
  return settings;
}

class IpvsProxier : public build::OwnNetwork {
 protected:
  void SetUp() override {
    OwnNetwork::SetUp();
    if (IsSkipped()) return;
    if (const auto usable = check_kernel("rr", {Family::V4, Family::V6}); !usable)
      GTEST_SKIP() << "needs IPVS: " << usable.error().text;
    add_address("172.31.0.11");
    add_address("fd00:31::11");
  }

  static void add_address(const std::string& text) { change_address({ip(text)}, {}); }
  static void remove_address(const std::string& text) { change_address({}, {ip(text)}); }
  static void change_address(const std::vector<net::IpAddr>& come,
                             const std::vector<net::IpAddr>& go) {
    const Family family = (come.empty() ? go : come).front().family();
    auto addresses = kernel::DeviceAddresses::open(family);
    ASSERT_TRUE(addresses) << addresses.error().text;
    const auto failures = addresses->change(kLoopback, come, go);
    ASSERT_TRUE(failures && failures->empty());
  }

  static std::unique_ptr<Proxier> start(Family family = Family::V4) {
    auto proxier = Proxier::open(settings(family));
    EXPECT_TRUE(proxier) << proxier.error().text;
    return std::move(*proxier);
  }

  void change(model::Change change) { dirty_.merge(store_.fold(std::move(change))); }
  void web(int endpoints, const std::string& scheduler = "") {
    auto object = service("default/web").cluster_ip("10.96.0.1").port("http", 80, 30080);
    auto made = object.node_port_type().value();
    made.ipvs_scheduler = scheduler;
    change(std::make_shared<const model::Service>(made));
    slice list("default/web", "web-1");
    list.port("http", 8080);
    for (int i = 1; i <= endpoints; ++i)
      list.ready("10.244.0." + std::to_string(i), i % 2 == 0 ? "node1" : "node2");
    change(list.ptr());
  }

  SyncReport sync(Proxier& proxier, bool full = false) {
    const auto report = proxier.sync({store_.snapshot(), std::exchange(dirty_, {}), full});
    EXPECT_TRUE(report) << report.error().text;
    return report ? *report : SyncReport();
  }

  static Observed observe(Proxier& proxier) {
    auto observed = proxier.observe();
    EXPECT_TRUE(observed) << observed.error().text;
    return observed ? std::move(*observed) : Observed();
  }
  static std::string servers(Proxier& proxier) { return servers_text(observe(proxier)); }

  static bool wrote_nothing(const SyncReport& report) {
    return report.rules + report.chains + report.elements + report.servers + report.addresses == 0;
  }

  // Is in the kernel what should be, and does a new process find nothing to do?
  void expect_in_line(Proxier& proxier, Family family) {
    auto addresses = kernel::DeviceAddresses::open(family);
    const auto node = node_addresses(*addresses->list(), ::if_nametoindex(kDevice), {});
    const auto wanted = ledger_of(settings(family), *store_.snapshot(), node).everything();
    const auto found = observe(proxier);
    EXPECT_EQ(servers_text(found), servers_text(wanted));
    EXPECT_EQ(sets_text(found, family), sets_text(wanted, family));
    EXPECT_EQ(addresses_text(found), addresses_text(wanted));
    EXPECT_TRUE(wrote_nothing(sync(*start(family), true)));
  }

  model::Store store_{"node1"};
  model::DirtySet dirty_;
};

TEST_F(IpvsProxier, WritesServersSetsAndAddresses) {
  auto proxier = start();
  web(2);
  sync(*proxier);
  EXPECT_EQ(servers(*proxier),
            "-A -t 10.96.0.1:80 -s rr\n"
            "-a -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w 1\n"
            "-a -t 10.96.0.1:80 -r 10.244.0.2:8080 -m -w 1\n"
            "-A -t 172.31.0.11:30080 -s rr\n"
            "-a -t 172.31.0.11:30080 -r 10.244.0.1:8080 -m -w 1\n"
            "-a -t 172.31.0.11:30080 -r 10.244.0.2:8080 -m -w 1\n");
  EXPECT_THAT(observe(*proxier).bound, ElementsAre(ip("10.96.0.1")));
  expect_in_line(*proxier, Family::V4);
}

TEST_F(IpvsProxier, OneEndpointIsAFewMessagesHoweverManyServicesThereAre) {
  auto proxier = start();
  for (int i = 0; i < 200; ++i) {
    const std::string name = "default/other-" + std::to_string(i);
    change(service(name).cluster_ip("10.97.0." + std::to_string(i)).port("http", 80).ptr());
    change(slice(name, "s").port("http", 80).ready("10.244.9.1", "node2").ptr());
  }
  web(2);
  sync(*proxier);
  web(3);
  const auto report = sync(*proxier);
  EXPECT_FALSE(report.full);
  EXPECT_EQ(report.servers, 2U);  // the cluster IP's and the node port's
  EXPECT_EQ(report.rules, 0U);
  EXPECT_EQ(report.messages, 2U);
  web(2);
  // Each is told to take no new connections, asked whether it has any, and removed.
  EXPECT_EQ(sync(*proxier).messages, 6U);
  expect_in_line(*proxier, Family::V4);
}

TEST_F(IpvsProxier, ServicesGoWithAllThatTheyHad) {
  auto proxier = start();
  web(2);
  sync(*proxier);
  change(model::ServiceDeleted{build::key("default/web")});
  sync(*proxier);
  const auto left = observe(*proxier);
  EXPECT_THAT(left.servers, IsEmpty());
  EXPECT_THAT(left.bound, IsEmpty());
  for (const auto& set : left.sets)
    EXPECT_THAT(set.value(), IsEmpty());
}

TEST_F(IpvsProxier, WhatOthersHaveDoneIsFoundAndMended) {
  auto proxier = start();
  web(2);
  sync(*proxier);
  EXPECT_FALSE(proxier->flushed(true));
  kernel::Ipvs::Changes changes;
  const kernel::ServerKey web{ip("10.96.0.1"), 80, net::Protocol::Tcp};
  changes.remove(web, {ip("10.244.0.1"), 8080});
  changes.add(web, {ip("10.244.0.77"), 8080});
  kernel::VirtualServer strange{{ip("10.5.5.5"), 80, net::Protocol::Tcp}, "rr"};
  changes.add(strange);
  strange.key.ip = ip("192.0.2.5");  // excluded
  changes.add(strange);
  auto other = kernel::Ipvs::open();
  ASSERT_THAT(other->apply(std::move(changes)).value(), IsEmpty());
  EXPECT_TRUE(proxier->flushed(true));
  EXPECT_EQ(sync(*proxier, true).drift, 3U);
  EXPECT_THAT(servers(*proxier), HasSubstr("-A -t 192.0.2.5:80 -s rr\n"));
  EXPECT_THAT(servers(*proxier), Not(HasSubstr("10.5.5.5")));
  EXPECT_THAT(servers(*proxier), Not(HasSubstr("10.244.0.77")));
  EXPECT_FALSE(proxier->flushed(true));
  ASSERT_TRUE(other->flush());
  EXPECT_TRUE(proxier->flushed(true));
  sync(*proxier, true);
  expect_in_line(*proxier, Family::V4);
}

TEST_F(IpvsProxier, AnAddressOfTheNodeIsHeardOfAndGetsItsNodePorts) {
  auto proxier = start();
  const auto watch = proxier->watch().value();
  web(2);
  sync(*proxier);
  EXPECT_EQ(watch->drain(), Disturbance::None);  // all of it was our own doing
  add_address("172.31.0.12");
  EXPECT_EQ(watch->drain(), Disturbance::Maybe);
  EXPECT_TRUE(proxier->flushed(true));
  sync(*proxier, true);
  EXPECT_THAT(servers(*proxier), HasSubstr("-A -t 172.31.0.12:30080 -s rr\n"));
  remove_address("172.31.0.12");
  EXPECT_EQ(watch->drain(), Disturbance::Maybe);
  sync(*proxier, true);
  EXPECT_THAT(servers(*proxier), Not(HasSubstr("172.31.0.12")));
}

TEST_F(IpvsProxier, OnlyWhatOthersTakeOffOurDeviceIsNews) {
  auto proxier = start();
  const auto watch = proxier->watch().value();
  web(2);
  sync(*proxier);
  EXPECT_EQ(watch->drain(), Disturbance::None);
  auto addresses = kernel::DeviceAddresses::open(Family::V4);
  ASSERT_TRUE(addresses->change(::if_nametoindex(kDevice), {}, {ip("10.96.0.1")}));
  EXPECT_EQ(watch->drain(), Disturbance::Maybe);
  sync(*proxier, true);
  change(model::ServiceDeleted{build::key("default/web")});
  sync(*proxier);
  EXPECT_EQ(watch->drain(), Disturbance::None);
}

TEST_F(IpvsProxier, ASchedulerThatIsNotThereIsReportedAndTheDefaultUsed) {
  auto proxier = start();
  web(1, "sh");
  EXPECT_THAT(sync(*proxier).problems, IsEmpty());
  EXPECT_THAT(servers(*proxier), HasSubstr("-A -t 10.96.0.1:80 -s sh\n"));
  web(1, "best");
  const auto problems = sync(*proxier).problems;
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].service.str(), "default/web");
  EXPECT_EQ(problems[0].text,
            "the kernel of node node1 has no scheduler \"best\" (module ip_vs_best is not loaded), "
            "using \"rr\"");
  EXPECT_THAT(servers(*proxier), HasSubstr("-A -t 10.96.0.1:80 -s rr\n"));
}

TEST_F(IpvsProxier, AKernelWithoutTheSchedulerIsToldWithThoseThatItHas) {
  EXPECT_THAT(check_kernel("best", {Family::V4}).error().text,
              testing::AllOf(HasSubstr("the kernel has no scheduler \"best\" (module ip_vs_best); "
                                       "it has: rr, wrr, "),
                             HasSubstr("mh")));
}

class IpvsHistories : public IpvsProxier, public testing::WithParamInterface<Family> {};

TEST_P(IpvsHistories, EndWhereAFullSyncEnds) {
  constexpr int kChanges = 90;
  history::Generator generator(1);
  auto proxier = start(GetParam());
  sync(*proxier);
  for (int i = 0; i < kChanges; ++i) {
    change(generator.next());
    if (i % 3 != 0) continue;
    sync(*proxier);
    if (i % 30 == 0) expect_in_line(*proxier, GetParam());
    ASSERT_FALSE(HasFailure()) << "change " << i;
  }
  sync(*proxier);
  expect_in_line(*proxier, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Families, IpvsHistories, testing::ValuesIn(net::kFamilies),
                         [](const auto& family) { return std::string(net::name(family.param)); });

}  // namespace
}  // namespace ipvs
