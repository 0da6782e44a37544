// On the real kernel, in a network namespace of its own.
#include "backend/nftables/proxier.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/nftables/encode.h"
#include "backend/nftables/read.h"
#include "kernel/nf_tables_read.h"
#include "model/store.h"
#include "support/builders.h"
#include "support/history.h"
#include "support/own_network.h"

namespace nftables {
namespace {

namespace nft = kernel::nf_tables;
using backend::Disturbance;
using backend::SyncReport;
using build::service;
using build::slice;
using net::Family;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Settings settings(Family family) {
  Settings settings;
  settings.options.family = family;
  settings.options.local_traffic = {
      plan::LocalTraffic::By::Source,
      build::cidr(family == Family::V4 ? "10.244.0.0/16" : "fd00:244::/64"), ""};
  settings.node_name = "node1";
  settings.node_ip = build::ip(family == Family::V4 ? "172.31.0.11" : "fd00:31::11");
  settings.node_port_cidrs = {build::cidr(family == Family::V4 ? "172.31.0.0/24" : "fd00:31::/64")};
  return settings;
}

class NftablesProxier : public build::OwnNetwork {
 protected:
  void SetUp() override {
    OwnNetwork::SetUp();
    if (IsSkipped()) return;
    nft::Batch probe(Family::V4, "probe");
    probe.add_table();
    probe.delete_table();
    if (const auto done = probe.commit("probe"); !done)
      GTEST_SKIP() << "needs nf_tables: " << done.error().text;
  }

  static std::unique_ptr<Proxier> start(Family family = Family::V4) {
    auto proxier = Proxier::open(settings(family), std::make_shared<nft::Listeners>());
    EXPECT_TRUE(proxier) << proxier.error().text;
    return std::move(*proxier);
  }

  void change(model::Change change) { dirty_.merge(store_.fold(std::move(change))); }
  // The Service "default/web", or that of the endpoints.
  void web(int endpoints, uint32_t affinity_s = 0) {
    auto object = service("default/web").cluster_ip("10.96.0.1").port("http", 80, 30080);
    object.node_port_type();
    if (affinity_s > 0) object.affinity(affinity_s);
    change(object.ptr());
    slice list("default/web", "web-1");
    list.port("http", 8080);
    for (int i = 1; i <= endpoints; ++i)
      list.ready("10.244.0." + std::to_string(i), "node1");
    change(list.ptr());
  }

  SyncReport sync(Proxier& proxier, bool full = false, bool rewrite = false) {
    const auto report = proxier.sync({store_.snapshot(), std::exchange(dirty_, {}), full, rewrite});
    EXPECT_TRUE(report) << report.error().text;
    return report ? *report : SyncReport();
  }

  // The kernel holds what the snapshot says, and nothing else.
  void expect_in_line(Family family = Family::V4) {
    std::vector<std::string> warnings;
    const auto contents = plan_contents(basis_of(settings(family), store_.snapshot(), warnings),
                                        settings(family).options);
    const auto image = image_of(contents, settings(family).options);
    const auto found = read_lines(image.listing);
    ASSERT_TRUE(found) << found.error().text;
    EXPECT_EQ(*found, lines_of(image.listing));
  }

  // As if somebody had typed it.
  static void meddle(const std::function<void(nft::Batch&)>& fill) {
    nft::Batch batch(Family::V4, kTable);
    fill(batch);
    const auto done = batch.commit("meddle");
    ASSERT_TRUE(done) << done.error().text;
  }

  model::Store store_{"node1"};
  model::DirtySet dirty_;
};

TEST_F(NftablesProxier, WritesAnEmptyTableForNoServices) {
  auto proxier = start();
  sync(*proxier);
  expect_in_line();
}

TEST_F(NftablesProxier, OneChangeIsOneSmallTransaction) {
  auto proxier = start();
  web(3);
  sync(*proxier);
  web(4);
  const auto report = sync(*proxier);
  EXPECT_FALSE(report.full);
  EXPECT_LT(report.elements, 12U);
  expect_in_line();
}

TEST_F(NftablesProxier, WhatDoesNotChangeAnythingWritesNothing) {
  auto proxier = start();
  web(3);
  sync(*proxier);
  dirty_.services.insert(build::key("default/web"));
  EXPECT_EQ(sync(*proxier).bytes, 0U);
}

TEST_F(NftablesProxier, ARestartWritesNothing) {
  web(3);
  sync(*start());
  auto proxier = start();
  const auto report = sync(*proxier);
  EXPECT_TRUE(report.full);
  EXPECT_EQ(report.bytes, 0U);
  web(2);
  EXPECT_FALSE(sync(*proxier).full);
  expect_in_line();
}

TEST_F(NftablesProxier, ARestartWithOtherServicesWritesEverything) {
  web(3);
  sync(*start());
  web(5);
  EXPECT_GT(sync(*start()).bytes, 0U);
  expect_in_line();
}

TEST_F(NftablesProxier, WhatOthersChangedWhileNobodyLookedIsFound) {
  const std::vector<std::function<void(nft::Batch&)>> deeds{
      [](auto& batch) { batch.delete_table(); },
      [](auto& batch) { batch.flush_chain("services"); },
      [](auto& batch) { batch.flush_chain("endpoints/3"); },
      [](auto& batch) { batch.flush_set("service-ips"); },
      [](auto& batch) { batch.flush_set("endpoints"); },
      [](auto& batch) { batch.flush_set("fingerprint"); },
      [](auto& batch) { batch.add_rule("services", {{nft::Obey{NF_DROP}}}); },
      [](auto& batch) {
        batch.add_chain({.name = "theirs", .hook = nft::Chain::Hook{NF_INET_LOCAL_IN, 5}});
      },
      [](auto& batch) {
        batch.add_chain(
            {.name = "filter-forward",
             .hook = nft::Chain::Hook{.number = NF_INET_FORWARD, .priority = 0, .accepts = false}});
      },
  };
  web(3);
  for (const auto& deed : deeds) {
    sync(*start());
    meddle(deed);
    EXPECT_GT(sync(*start()).bytes, 0U);
    expect_in_line();
  }
}

TEST_F(NftablesProxier, ATransactionFailsIfTheTableIsNotWhatWeTakeItFor) {
  auto first = start();
  web(3);
  sync(*first);
  auto second = start();
  sync(*second);
  web(4);
  const auto dirty = dirty_;
  sync(*first);
  const auto report = second->sync({store_.snapshot(), dirty, false, false});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().text, HasSubstr("deletion of an element of fingerprint"));
  EXPECT_EQ(sync(*second).bytes, 0U);  // looks, and finds what it wanted to write
  expect_in_line();
}

TEST_F(NftablesProxier, ATableOfSomebodyElseIsReplaced) {
  meddle([](auto& batch) {
    batch.add_table();
    batch.add_set({.name = "service-ips", .key = {nft::FieldType::Mark}});
    batch.add_chain({.name = "services", .hook = nft::Chain::Hook{NF_INET_FORWARD, 7}});
  });
  web(2);
  auto proxier = start();
  sync(*proxier);
  expect_in_line();
}

TEST_F(NftablesProxier, MapsGrow) {
  auto proxier = start();
  web(1);
  sync(*proxier);
  for (int i = 0; i < 400; ++i) {
    const std::string name = "default/s" + std::to_string(i);
    change(service(name)
               .cluster_ip("10.97." + std::to_string(i / 250) + "." + std::to_string(i % 250))
               .port("http", 80)
               .ptr());
    slice list(name, "s");
    list.port("http", 8080);
    for (int j = 0; j < 12; ++j)
      list.ready("10.244.1." + std::to_string(j));
    change(list.ptr());
    if (i % 100 == 99) sync(*proxier);
  }
  sync(*proxier);
  expect_in_line();
}

TEST_F(NftablesProxier, FrontEndsThatTwoServicesClaimPassOn) {
  auto proxier = start();
  const auto claim = [&](const std::string& name, const std::string& endpoint) {
    change(service(name).cluster_ip("10.96.0.9").port("http", 80).ptr());
    change(slice(name, "s").port("http", 8080).ready(endpoint).ptr());
  };
  claim("default/a", "10.244.0.1");
  sync(*proxier);
  claim("default/b", "10.244.0.2");
  sync(*proxier);
  expect_in_line();
  change(model::ServiceDeleted{build::key("default/a")});
  sync(*proxier);
  expect_in_line();
  claim("default/a", "10.244.0.3");  // takes it back, being the first by name
  sync(*proxier);
  expect_in_line();
  change(model::ServiceDeleted{build::key("default/b")});
  sync(*proxier);
  expect_in_line();
}

TEST_F(NftablesProxier, ServiceCidrsTakeEffectAtOnce) {
  auto proxier = start();
  sync(*proxier);
  const auto cidrs = [&](std::vector<net::Cidr> blocks) {
    change(std::make_shared<const model::ServiceCidr>(model::ServiceCidr{"a", std::move(blocks)}));
    EXPECT_FALSE(sync(*proxier).full);
    expect_in_line();
  };
  cidrs({build::cidr("10.96.0.0/12")});
  cidrs({build::cidr("10.96.0.0/12"), build::cidr("10.112.0.0/16"), build::cidr("10.96.1.0/24")});
  cidrs({build::cidr("0.0.0.0/0")});
  cidrs({});
}

TEST_F(NftablesProxier, OwnTransactionsAreNotNews) {
  auto proxier = start();
  auto watch = proxier->watch();
  ASSERT_TRUE(watch) << watch.error().text;
  web(3);
  sync(*proxier);
  web(2);
  sync(*proxier);
  EXPECT_EQ((*watch)->drain(), Disturbance::None);
}

TEST_F(NftablesProxier, WhatOthersDoToTheTableIsNews) {
  auto proxier = start();
  auto watch = proxier->watch();
  ASSERT_TRUE(watch) << watch.error().text;
  sync(*proxier);
  nft::Batch other(Family::V4, "theirs");
  other.add_table();
  ASSERT_TRUE(other.commit("other table"));
  EXPECT_EQ((*watch)->drain(), Disturbance::None);
  meddle([](auto& batch) { batch.flush_chain("services"); });
  EXPECT_EQ((*watch)->drain(), Disturbance::Sure);
  EXPECT_EQ((*watch)->drain(), Disturbance::None);
  sync(*proxier, true, true);
  expect_in_line();
}

TEST_F(NftablesProxier, AnOverrunMayBeNews) {
  auto proxier = start();
  auto watch = proxier->watch();
  ASSERT_TRUE(watch) << watch.error().text;
  sync(*proxier);
  const int little = 1;
  ASSERT_EQ(::setsockopt((*watch)->fd(), SOL_SOCKET, SO_RCVBUF, &little, sizeof little), 0);
  for (int i = 0; i < 50; ++i) {
    nft::Batch other(Family::V6, "theirs" + std::to_string(i));
    other.add_table();
    ASSERT_TRUE(other.commit("other table"));
  }
  EXPECT_EQ((*watch)->drain(), Disturbance::Maybe);
}

TEST_F(NftablesProxier, IdleChainsDoNotKeepOthersFromBeingWritten) {
  auto proxier = start();
  for (int i = 1; i < 20; ++i) {
    web(i);
    sync(*proxier);
  }
  web(0);
  sync(*proxier);
  expect_in_line();
}

TEST_F(NftablesProxier, ChainsThatARewriteHasEmptiedAreFilledWhenTheyAreNeeded) {
  web(3);
  sync(*start());
  web(2);
  auto proxier = start();
  sync(*proxier);
  web(3);
  sync(*proxier);
  expect_in_line();
}

TEST_F(NftablesProxier, OnlyWhatOthersDidIsDrift) {
  auto proxier = start();
  web(3);
  sync(*proxier);
  web(2);
  EXPECT_EQ(sync(*proxier, true).drift, 0U);
  meddle([](auto& batch) { batch.flush_chain("services"); });
  EXPECT_EQ(sync(*proxier, true).drift, 1U);
}

// Session affinity, as packets would note it.
class Sticky : public NftablesProxier {
 protected:
  static std::vector<uint8_t> bytes(const Bytes& from) {
    return {from.view().begin(), from.view().end()};
  }
  static std::vector<uint8_t> key(const char* client, const char* vip = "10.96.0.1",
                                  uint16_t port = 80) {
    Bytes key;
    key.put(build::ip(vip));
    key.put(net::Protocol::Tcp);
    key.put_port(port);
    key.put(build::ip(client));
    return bytes(key);
  }
  static std::vector<uint8_t> endpoint(const char* ip) {
    Bytes value;
    value.put(build::ip(ip));
    value.put_port(8080);
    return bytes(value);
  }
  static void note(const std::vector<uint8_t>& key, const char* ip, std::chrono::seconds timeout,
                   std::chrono::seconds left) {
    const auto value = endpoint(ip);
    meddle([&](auto& batch) {
      batch.add_element("affinity", {.key = key, .value = value, .timeout = timeout, .left = left});
    });
  }
  // "client -> endpoint, time-out", of all entries.
  static std::vector<std::string> entries() {
    auto conversation = kernel::netlink::Conversation::open(NETLINK_NETFILTER);
    nft::Reader reader(*conversation, Family::V4, kTable);
    std::vector<std::string> out;
    const auto found = reader.elements("affinity");
    EXPECT_TRUE(found) << found.error().text;
    for (const auto& entry : *found) {
      const auto text = [](const uint8_t* at) {
        char buffer[INET_ADDRSTRLEN];
        return std::string(inet_ntop(AF_INET, at, buffer, sizeof buffer));
      };
      out.push_back(text(entry.key.data() + 12) + " -> " + text(entry.value.data()) + ", " +
                    std::to_string(entry.timeout.count() / 1000));
    }
    std::ranges::sort(out);
    return out;
  }
};

TEST_F(Sticky, EntriesOfRemovedEndpointsGo) {
  using namespace std::chrono_literals;
  auto proxier = start();
  web(3, 600);
  sync(*proxier);
  note(key("10.244.0.50"), "10.244.0.1", 600s, 500s);
  note(key("10.244.0.51"), "10.244.0.3", 600s, 500s);
  note(key("10.244.0.52", "172.31.0.11", 30080), "10.244.0.3", 600s, 500s);
  web(2, 600);
  sync(*proxier);
  EXPECT_THAT(entries(), ElementsAre("10.244.0.50 -> 10.244.0.1, 600"));
  change(model::ServiceDeleted{build::key("default/web")});
  sync(*proxier);
  EXPECT_THAT(entries(), IsEmpty());
}

TEST_F(Sticky, AnotherTimeOutHoldsForEntriesThatAreThere) {
  using namespace std::chrono_literals;
  auto proxier = start();
  web(2, 600);
  sync(*proxier);
  note(key("10.244.0.50"), "10.244.0.1", 600s, 590s);  // ten seconds old
  note(key("10.244.0.51"), "10.244.0.1", 600s, 300s);
  web(2, 60);
  sync(*proxier);
  EXPECT_THAT(entries(), ElementsAre("10.244.0.50 -> 10.244.0.1, 60"));
}

TEST_F(Sticky, ARewriteKeepsEntriesThatHold) {
  using namespace std::chrono_literals;
  web(3, 600);
  sync(*start());
  note(key("10.244.0.50"), "10.244.0.1", 600s, 500s);
  note(key("10.244.0.51"), "10.244.0.3", 600s, 500s);
  web(2, 600);
  sync(*start());
  EXPECT_THAT(entries(), ElementsAre("10.244.0.50 -> 10.244.0.1, 600"));
}

class Histories : public NftablesProxier, public testing::WithParamInterface<Family> {};

TEST_P(Histories, EndWhereAFullSyncEnds) {
  constexpr int kChanges = 300;
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    history::Generator generator(seed);
    auto proxier = start(GetParam());
    sync(*proxier);
    for (int i = 0; i < kChanges; ++i) {
      change(generator.next());
      if (i % 3 != 0) continue;
      sync(*proxier);
      if (i % 30 == 0) expect_in_line(GetParam());
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", change " << i;
    }
    sync(*proxier);
    expect_in_line(GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Histories, testing::ValuesIn(net::kFamilies),
                         [](const auto& family) { return std::string(net::name(family.param)); });

}  // namespace
}  // namespace nftables
