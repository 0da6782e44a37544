// What the ledger says has to change, case by case, and its laws on histories drawn at random.
#include "backend/ipvs/ledger.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "backend/ipvs/text.h"
#include "model/store.h"
#include "support/history.h"

namespace ipvs {
namespace {

using build::ip;
using build::key;
using kernel::RealServer;
using kernel::ServerKey;
using kernel::SetEntry;
using kernel::VirtualServer;
using testing::ElementsAre;
using testing::IsEmpty;

bool never(const net::IpAddr&) { return false; }

ServerKey tcp(std::string_view address, uint16_t port) { return {ip(address), port}; }
RealServer real(std::string_view address, uint32_t weight = 1) {
  return {ip(address), 8080, weight};
}

// What a Service needs that has one front end, and its cluster IP there.
ServiceContents contents(std::string_view address, Targets targets, std::string scheduler = "rr") {
  ServiceContents made;
  made.fronts = {{{.key = tcp(address, 80), .scheduler = std::move(scheduler)}, 0}};
  made.entries = {{SetId::ClusterIp, {.ip = ip(address), .port = 80}}};
  made.bound = {ip(address)};
  made.endpoints = static_cast<uint32_t>(targets.size());
  made.targets = {std::move(targets)};
  return made;
}

Difference set(Ledger& ledger, std::string_view name, ServiceContents now) {
  std::vector<std::pair<model::ServiceKey, ServiceContents>> services;
  services.emplace_back(key(name), std::move(now));
  return ledger.update(std::move(services));
}

std::string text_of(const Observed& state) {
  return servers_text(state) + sets_text(state, net::Family::V4) + addresses_text(state);
}

// ---- a kernel

// Takes differences, and insists that each change is one: nothing is added twice, or removed that is not there.
class Kernel {
 public:
  Kernel() {
    for (const SetId id : all_sets())
      sets[id];
  }

  void apply(const Difference& difference) {
    apply_sets(difference);
    for (const auto& server : difference.servers_added)
      EXPECT_TRUE(servers.emplace(server.key, Server{server, {}}).second);
    for (const auto& server : difference.servers_updated)
      EXPECT_NE(std::exchange(servers.at(server.key).server, server), server);
    for (const auto& [server, real] : difference.reals_added)
      EXPECT_TRUE(
          servers.at(server).weights.emplace(Place{real.ip, real.port}, real.weight).second);
    for (const auto& [server, real] : difference.reals_updated)
      EXPECT_NE(std::exchange(servers.at(server).weights.at({real.ip, real.port}), real.weight),
                real.weight);
    for (const auto& address : difference.bound)
      EXPECT_TRUE(bound.insert(address).second);
    for (const auto& address : difference.unbound)
      EXPECT_EQ(bound.erase(address), 1U);
    for (const auto& server : difference.servers_removed)
      EXPECT_EQ(servers.erase(server), 1U);
    for (const auto& [server, real] : difference.reals_removed) {
      auto& weights = servers.at(server).weights;
      EXPECT_EQ(weights.at({real.ip, real.port}), real.weight);
      weights.erase({real.ip, real.port});
    }
  }

  Observed observed() const {
    Observed state;
    for (const auto& [_, server] : servers) {
      auto& copy = state.servers.emplace_back(Observed::Server{server.server, {}});
      for (const auto& [place, weight] : server.weights)
        copy.reals.push_back({place.first, place.second, weight});
      std::ranges::reverse(copy.reals);
    }
    std::ranges::reverse(state.servers);
    for (const auto& [id, entries] : sets)
      state.sets.at(static_cast<size_t>(id)).emplace(entries.rbegin(), entries.rend());
    state.bound.assign(bound.rbegin(), bound.rend());
    return state;
  }

  using Place = std::pair<net::IpAddr, uint16_t>;
  struct Server {
    VirtualServer server;
    std::map<Place, uint32_t> weights;
  };
  std::map<ServerKey, Server> servers;
  std::map<SetId, std::set<SetEntry>> sets;
  std::set<net::IpAddr> bound;

 private:
  void apply_sets(const Difference& difference) {
    for (const SetId id : difference.sets_missing)
      EXPECT_TRUE(sets.try_emplace(id).second);
    for (const auto& [id, entry] : difference.entries_added)
      EXPECT_TRUE(sets.at(id).insert(entry).second);
    for (const auto& [id, entry] : difference.entries_removed)
      EXPECT_EQ(sets.at(id).erase(entry), 1U);
  }
};

// ---- update()

TEST(IpvsLedger, ANewServiceBringsAllItNeeds) {
  Ledger ledger;
  const auto change = set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.1")}));
  EXPECT_THAT(change.servers_added,
              ElementsAre(VirtualServer{.key = tcp("10.96.0.1", 80), .scheduler = "rr"}));
  EXPECT_THAT(change.reals_added,
              ElementsAre(RealChange{tcp("10.96.0.1", 80), real("10.244.0.1")}));
  EXPECT_THAT(change.bound, ElementsAre(ip("10.96.0.1")));
  EXPECT_THAT(change.entries_added,
              ElementsAre(Entry{SetId::ClusterIp, {.ip = ip("10.96.0.1"), .port = 80}},
                          Entry{SetId::IpvsIps, {.ip = ip("10.96.0.1")}}));
  EXPECT_EQ(change.size(), 5U);
  EXPECT_EQ(ledger.endpoints(), 1U);
  EXPECT_EQ(ledger.servers(), 1U);
  EXPECT_EQ(ledger.services(), 1U);
}

TEST(IpvsLedger, TheSameAgainChangesNothing) {
  Ledger ledger;
  set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.1")}));
  EXPECT_TRUE(set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.1")})).empty());
}

TEST(IpvsLedger, AnEndpointThatComesAndOneThatGoesTouchNothingElse) {
  Ledger ledger;
  set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.1"), real("10.244.0.2")}));
  const auto change =
      set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.2"), real("10.244.0.3")}));
  EXPECT_THAT(change.reals_added,
              ElementsAre(RealChange{tcp("10.96.0.1", 80), real("10.244.0.3")}));
  EXPECT_THAT(change.reals_removed,
              ElementsAre(RealChange{tcp("10.96.0.1", 80), real("10.244.0.1")}));
  EXPECT_EQ(change.size(), 2U);
}

TEST(IpvsLedger, AnotherWeightIsAnUpdateOfTheRealServer) {
  Ledger ledger;
  set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.1", 1)}));
  const auto change = set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.1", 5)}));
  EXPECT_THAT(change.reals_updated,
              ElementsAre(RealChange{tcp("10.96.0.1", 80), real("10.244.0.1", 5)}));
  EXPECT_EQ(change.size(), 1U);
}

TEST(IpvsLedger, AnotherSchedulerIsAnUpdateInPlace) {
  Ledger ledger;
  set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.1")}));
  const auto change = set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.1")}, "wrr"));
  ASSERT_EQ(change.servers_updated.size(), 1U);
  EXPECT_EQ(change.servers_updated.at(0).scheduler, "wrr");
  EXPECT_EQ(change.size(), 1U);
}

TEST(IpvsLedger, AServiceThatGoesTakesAllWithItAndNamesNoRealServers) {
  Ledger ledger;
  set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.1")}));
  const auto change = set(ledger, "default/a", {});
  EXPECT_THAT(change.servers_removed, ElementsAre(tcp("10.96.0.1", 80)));
  EXPECT_THAT(change.reals_removed, IsEmpty());
  EXPECT_THAT(change.unbound, ElementsAre(ip("10.96.0.1")));
  EXPECT_EQ(change.entries_removed.size(), 2U);
  EXPECT_EQ(ledger.services(), 0U);
  EXPECT_EQ(ledger.endpoints(), 0U);
  EXPECT_FALSE(ledger.has_entries(SetId::ClusterIp));
  EXPECT_FALSE(ledger.has_entries(SetId::IpvsIps));
}

TEST(IpvsLedger, RemovingAServiceThatWasNotThereChangesNothing) {
  Ledger ledger;
  EXPECT_TRUE(set(ledger, "default/a", {}).empty());
  EXPECT_EQ(ledger.services(), 0U);
}

// ---- Services that claim the same

TEST(IpvsLedger, OfTwoServicesTheFirstByNameHasTheFrontEndWhoeverCameFirst) {
  Ledger ledger;
  set(ledger, "default/b", contents("10.96.0.1", {real("10.244.0.2")}));
  const auto change = set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.1")}, "wrr"));
  ASSERT_EQ(change.servers_updated.size(), 1U);
  EXPECT_THAT(change.reals_added,
              ElementsAre(RealChange{tcp("10.96.0.1", 80), real("10.244.0.1")}));
  EXPECT_THAT(change.reals_removed,
              ElementsAre(RealChange{tcp("10.96.0.1", 80), real("10.244.0.2")}));
  EXPECT_EQ(change.size(), 3U);  // the entries and the address are there already
  EXPECT_TRUE(set(ledger, "default/c", contents("10.96.0.1", {real("10.244.0.3")})).empty());
}

TEST(IpvsLedger, AFrontEndPassesToTheNextByNameAndIsNotRemoved) {
  Ledger ledger;
  for (const char* name : {"a", "c", "b"})
    set(ledger, std::string("default/") + name, contents("10.96.0.1", {real("10.244.0.1")}, name));
  const auto change = set(ledger, "default/a", {});
  ASSERT_EQ(change.servers_updated.size(), 1U);
  EXPECT_EQ(change.servers_updated.at(0).scheduler, "b");
  EXPECT_EQ(change.size(), 1U);
  EXPECT_TRUE(set(ledger, "default/c", {}).empty());
  EXPECT_THAT(set(ledger, "default/b", {}).servers_removed, ElementsAre(tcp("10.96.0.1", 80)));
}

TEST(IpvsLedger, WhatOneGivesUpAndAnotherBeginsToClaimIsNotTouched) {
  Ledger ledger;
  set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.1")}));
  for (const bool first_goes_first : {true, false}) {
    std::vector<std::pair<model::ServiceKey, ServiceContents>> services;
    services.emplace_back(key("default/a"), first_goes_first
                                                ? ServiceContents{}
                                                : contents("10.96.0.1", {real("10.244.0.1")}));
    services.emplace_back(key("default/b"), first_goes_first
                                                ? contents("10.96.0.1", {real("10.244.0.1")})
                                                : ServiceContents{});
    EXPECT_TRUE(ledger.update(std::move(services)).empty());
  }
}

TEST(IpvsLedger, AChangeOfAServiceThatHasNotTheFrontEndIsNotWritten) {
  Ledger ledger;
  set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.1")}));
  set(ledger, "default/b", contents("10.96.0.1", {real("10.244.0.2")}));
  EXPECT_TRUE(set(ledger, "default/b", contents("10.96.0.1", {real("10.244.0.3")})).empty());
}

TEST(IpvsLedger, GuardsAreThereAsLongAsOneServiceHasThem) {
  const Guard guard{ip("192.0.2.1"), net::Protocol::Tcp, 80};
  auto guarded = contents("10.96.0.1", {});
  guarded.guards = {guard};
  Ledger ledger;
  set(ledger, "default/a", guarded);
  set(ledger, "default/b", guarded);
  EXPECT_THAT(ledger.guards(), ElementsAre(guard));
  set(ledger, "default/a", {});
  EXPECT_THAT(ledger.guards(), ElementsAre(guard));
  set(ledger, "default/b", {});
  EXPECT_THAT(ledger.guards(), IsEmpty());
}

TEST(IpvsLedger, AMovedLedgerStillKnowsWhoHasWhat) {
  Ledger first;
  set(first, "default/a", contents("10.96.0.1", {real("10.244.0.1")}));
  Ledger second = std::move(first);
  EXPECT_THAT(set(second, "default/a", {}).servers_removed, ElementsAre(tcp("10.96.0.1", 80)));
}

// ---- compare()

TEST(IpvsLedger, AnEmptyKernelLacksSetsEvenIfNothingGoesIntoThem) {
  const auto change = Ledger().compare({}, never);
  EXPECT_EQ(change.sets_missing.size(), kSets);
  EXPECT_EQ(change.size(), kSets);
}

TEST(IpvsLedger, ServersOfNobodyGoUnlessExcluded) {
  Observed there = Ledger().everything();
  there.servers.push_back({{.key = tcp("192.0.2.1", 80), .scheduler = "rr"}, {}});
  there.servers.push_back({{.key = tcp("198.51.100.1", 80), .scheduler = "rr"}, {}});
  const auto excluded = [](const net::IpAddr& address) { return address == ip("192.0.2.1"); };
  const auto change = Ledger().compare(there, excluded);
  EXPECT_THAT(change.servers_removed, ElementsAre(tcp("198.51.100.1", 80)));
  EXPECT_EQ(change.size(), 1U);
}

TEST(IpvsLedger, AnExcludedServerThatAServiceClaimsIsMended) {
  Ledger ledger;
  set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.1")}));
  Observed there = ledger.everything();
  there.servers.at(0).server.timeout_s = 60;
  const auto change = ledger.compare(there, [](const net::IpAddr&) { return true; });
  EXPECT_EQ(change.servers_updated.size(), 1U);
  EXPECT_EQ(change.size(), 1U);
}

TEST(IpvsLedger, UnwantedRealServersOfAWantedServerGoEvenIfTheyDrain) {
  Ledger ledger;
  set(ledger, "default/a", contents("10.96.0.1", {real("10.244.0.1")}));
  Observed there = ledger.everything();
  there.servers.at(0).reals = {real("10.244.0.9", 0), real("10.244.0.1", 0)};
  const auto change = ledger.compare(there, never);
  EXPECT_THAT(change.reals_removed,
              ElementsAre(RealChange{tcp("10.96.0.1", 80), real("10.244.0.9", 0)}));
  EXPECT_THAT(change.reals_updated,
              ElementsAre(RealChange{tcp("10.96.0.1", 80), real("10.244.0.1", 1)}));
  EXPECT_EQ(change.size(), 2U);
}

TEST(IpvsLedger, AddressesOfNobodyAreUnbound) {
  Observed there = Ledger().everything();
  there.bound = {ip("192.0.2.9"), ip("192.0.2.1")};
  EXPECT_THAT(Ledger().compare(there, never).unbound,
              ElementsAre(ip("192.0.2.1"), ip("192.0.2.9")));
}

// A tenth of a second is common; what is quadratic in servers takes minutes.
TEST(IpvsLedger, TwentyThousandServersAreComparedWithoutWaiting) {
  std::vector<std::pair<model::ServiceKey, ServiceContents>> services;
  for (uint32_t i = 0; i < 20'000; ++i) {
    Targets targets;
    for (uint32_t j = 0; j < 5; ++j)
      targets.push_back({net::IpAddr::v4(0x0af40000 + i * 5 + j), 8080, 1});
    services.emplace_back(model::ServiceKey{"default", "s" + std::to_string(i)},
                          contents(net::IpAddr::v4(0x0a600000 + i).str(), std::move(targets)));
  }
  const auto start = std::chrono::steady_clock::now();
  Ledger ledger;
  const auto first = ledger.update(std::move(services));
  const auto updated = std::chrono::steady_clock::now();
  EXPECT_TRUE(ledger.compare(ledger.everything(), never).empty());
  const auto compared = std::chrono::steady_clock::now();
  EXPECT_EQ(first.reals_added.size(), 100'000U);
  const auto ms = [](auto time) { return static_cast<int>(time / std::chrono::milliseconds(1)); };
  RecordProperty("update_ms", ms(updated - start));
  RecordProperty("compare_ms", ms(compared - updated));
}

// ---- laws

// One node that folds changes and keeps a ledger in line, as the daemon does.
class Node {
 public:
  Node() : store_("node1") {
    context_.node_name = "node1";
    context_.zone = "zone-a";
    context_.node_ip = ip("172.31.0.11");
    addresses.own = addresses.node_ports = {ip("172.31.0.11"), ip("192.168.77.1")};
  }

  void fold(const model::Change& change) { dirty_.merge(store_.fold(change)); }

  Difference update_dirty() {
    return update(plan::compile_some(store_.snapshot()->services,
                                     std::exchange(dirty_, {}).services, context_));
  }
  Difference update_all() {
    dirty_ = {};
    return update(plan::compile_all(store_.snapshot()->services, context_));
  }

  // As if nothing had ever happened before.
  Ledger from_scratch(uint32_t seed) const {
    auto services = all_contents(plan::compile_all(store_.snapshot()->services, context_));
    std::mt19937 random(seed);
    std::shuffle(services.begin(), services.end(), random);
    Ledger fresh;
    fresh.update(std::move(services));
    return fresh;
  }

  NodeAddresses addresses;
  Ledger ledger;

 private:
  using Contents = std::vector<std::pair<model::ServiceKey, ServiceContents>>;

  Contents all_contents(const std::vector<plan::ServicePlan>& plans) const {
    Contents all;
    for (const auto& plan : plans)
      all.emplace_back(plan.key, contents_of(plan, plan.key.name == "s1" ? "mh" : "rr", addresses));
    return all;
  }
  Difference update(const std::vector<plan::ServicePlan>& plans) {
    return ledger.update(all_contents(plans));
  }

  model::Store store_;
  model::DirtySet dirty_;
  plan::Context context_;
};

RC_GTEST_PROP(IpvsLaws, DifferencesLeadToEverything, (uint32_t seed)) {
  Node node;
  Kernel kernel;
  history::Generator generator(seed);
  for (int i = 0; i < 120; ++i) {
    node.fold(generator.next());
    if (i % 3 == 0) continue;  // now and then several changes at once
    if (i == 60) {
      node.addresses.own = {ip("198.51.100.1"), ip("203.0.113.2")};
      node.addresses.node_ports = {ip("198.51.100.1")};
      kernel.apply(node.update_all());
    }
    kernel.apply(node.update_dirty());
  }
  kernel.apply(node.update_dirty());
  RC_ASSERT(text_of(kernel.observed()) == text_of(node.ledger.everything()));
  RC_ASSERT(node.ledger.compare(kernel.observed(), never).empty());
  RC_ASSERT(node.update_all().empty());
}

RC_GTEST_PROP(IpvsLaws, WhatThereIsDoesNotDependOnWhatHasBeen, (uint32_t seed)) {
  Node node;
  for (const auto& change : history::Generator(seed).changes(120)) {
    node.fold(change);
    node.update_dirty();
  }
  const Ledger fresh = node.from_scratch(seed);
  RC_ASSERT(text_of(node.ledger.everything()) == text_of(fresh.everything()));
  RC_ASSERT(node.ledger.guards() == fresh.guards());
  RC_ASSERT(node.ledger.endpoints() == fresh.endpoints());
  RC_ASSERT(node.ledger.services() == fresh.services());
  for (const SetId id : all_sets())
    RC_ASSERT(node.ledger.has_entries(id) == fresh.has_entries(id));
}

// Somebody else has been at work.
class Damage {
 public:
  explicit Damage(uint32_t seed) : random_(seed) {}

  void inflict(Kernel& kernel) {
    std::erase_if(kernel.servers, [&](const auto&) { return one_in(6); });
    for (auto& [_, server] : kernel.servers)
      server_damage(server);
    for (unsigned i = 0; i < 4; ++i) {
      const VirtualServer strange{.key = {address(), 80}, .scheduler = "wlc"};
      kernel.servers.try_emplace(strange.key, Kernel::Server{strange, {}});
    }
    for (auto& [_, entries] : kernel.sets) {
      std::erase_if(entries, [&](const auto&) { return one_in(5); });
      if (one_in(3)) entries.insert({.ip = address(), .port = 1});
    }
    std::erase_if(kernel.sets, [&](const auto&) { return one_in(5); });
    std::erase_if(kernel.bound, [&](const auto&) { return one_in(5); });
    kernel.bound.insert(address());
  }

 private:
  bool one_in(unsigned n) { return random_() % n == 0; }
  net::IpAddr address() { return net::IpAddr::v4(0x0a600000 + random_() % 30); }

  void server_damage(Kernel::Server& server) {
    if (one_in(6)) server.server.scheduler = "lc";
    if (one_in(6)) server.server.flags ^= VirtualServer::kPersistent;
    if (one_in(6)) server.server.timeout_s += 1;
    std::erase_if(server.weights, [&](const auto&) { return one_in(4); });
    for (auto& [_, weight] : server.weights)
      if (one_in(4)) weight = 0;
    if (one_in(4)) server.weights.try_emplace({address(), 8080}, 1);
  }

  std::mt19937 random_;
};

RC_GTEST_PROP(IpvsLaws, WhateverIsThereAComparisonLeadsToEverything, (uint32_t seed)) {
  Node node;
  Kernel kernel;
  for (const auto& change : history::Generator(seed).changes(80))
    node.fold(change);
  kernel.apply(node.update_dirty());
  Damage(seed).inflict(kernel);
  kernel.apply(node.ledger.compare(kernel.observed(), never));
  RC_ASSERT(text_of(kernel.observed()) == text_of(node.ledger.everything()));
  RC_ASSERT(node.ledger.compare(kernel.observed(), never).empty());
}

RC_GTEST_PROP(IpvsLaws, ListsOfADifferenceAreSorted, (uint32_t seed)) {
  Node node;
  const auto is_sorted = [](const Difference& one) {
    const auto by_key = [](const VirtualServer& server) -> const ServerKey& { return server.key; };
    return std::ranges::is_sorted(one.entries_added) &&
           std::ranges::is_sorted(one.entries_removed) &&
           std::ranges::is_sorted(one.servers_added, {}, by_key) &&
           std::ranges::is_sorted(one.servers_updated, {}, by_key) &&
           std::ranges::is_sorted(one.servers_removed) && std::ranges::is_sorted(one.reals_added) &&
           std::ranges::is_sorted(one.reals_updated) && std::ranges::is_sorted(one.reals_removed) &&
           std::ranges::is_sorted(one.bound) && std::ranges::is_sorted(one.unbound) &&
           std::ranges::is_sorted(one.sets_missing);
  };
  history::Generator generator(seed);
  for (int round = 0; round < 6; ++round) {
    for (const auto& change : generator.changes(20))
      node.fold(change);
    RC_ASSERT(is_sorted(node.update_dirty()));
  }
  Kernel kernel;
  Damage(seed).inflict(kernel);
  RC_ASSERT(is_sorted(node.ledger.compare(kernel.observed(), never)));
}

}  // namespace
}  // namespace ipvs
