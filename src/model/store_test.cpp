#include "model/store.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/builders.h"

namespace model {
namespace {

using build::key;
using build::service;
using build::slice;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> names(const ServiceMap& map) {
  std::vector<std::string> found;
  map.for_each([&](const ServiceEntryPtr& entry) { found.push_back(entry->key.str()); });
  return found;
}

TEST(Store, AServiceMakesItselfDirty) {
  Store store("node1");
  EXPECT_THAT(store.fold(service("a/web").ptr()).services, ElementsAre(key("a/web")));
}

TEST(Store, TheSameObjectAgainIsNoChange) {
  Store store("node1");
  store.fold(service("a/web").port("http", 80).ptr());
  EXPECT_TRUE(store.fold(service("a/web").port("http", 80).ptr()).empty());
}

TEST(Store, SlicesMayComeBeforeTheirService) {
  Store store("node1");
  store.fold(slice("a/web", "web-1").ready("10.0.0.1").ptr());
  store.fold(service("a/web").ptr());
  const auto entry = store.snapshot()->services.find(key("a/web"));
  ASSERT_NE(entry, nullptr);
  EXPECT_NE(entry->service, nullptr);
  EXPECT_EQ(entry->slices.size(), 1U);
}

TEST(Store, AnEntryGoesWhenItsLastObjectGoes) {
  Store store("node1");
  store.fold(service("a/web").ptr());
  store.fold(slice("a/web", "web-1").ptr());
  store.fold(ServiceDeleted{key("a/web")});
  EXPECT_EQ(store.snapshot()->services.size(), 1U);
  EXPECT_FALSE(store.fold(SliceDeleted{{key("a/web"), "web-1"}}).empty());
  EXPECT_EQ(store.snapshot()->services.size(), 0U);
}

TEST(Store, DeletingWhatIsNotThereIsNoChange) {
  Store store("node1");
  EXPECT_TRUE(store.fold(ServiceDeleted{key("a/web")}).empty());
  EXPECT_TRUE(store.fold(SliceDeleted{{key("a/web"), "x"}}).empty());
}

TEST(Store, SlicesStandInTheOrderOfTheirNames) {
  Store store("node1");
  for (const auto* name : {"c", "a", "b"})
    store.fold(slice("a/web", name).ptr());
  const auto entry = store.snapshot()->services.find(key("a/web"));
  EXPECT_THAT(entry->slices,
              ElementsAre(testing::Pointee(testing::Field(&EndpointSlice::name, "a")),
                          testing::Pointee(testing::Field(&EndpointSlice::name, "b")),
                          testing::Pointee(testing::Field(&EndpointSlice::name, "c"))));
}

TEST(Store, ASliceThatChangesTakesTheOldOnesPlace) {
  Store store("node1");
  store.fold(slice("a/web", "web-1").ready("10.0.0.1").ptr());
  const auto changed = slice("a/web", "web-1").ready("10.0.0.2").ptr();
  EXPECT_THAT(store.fold(changed).services, ElementsAre(key("a/web")));
  EXPECT_THAT(store.snapshot()->services.find(key("a/web"))->slices, ElementsAre(changed));
}

TEST(Store, ASnapshotDoesNotChangeOnceHandedOut) {
  Store store("node1");
  store.fold(service("a/web").ptr());
  const auto before = store.snapshot();
  store.fold(service("b/web").ptr());
  EXPECT_THAT(names(before->services), ElementsAre("a/web"));
  EXPECT_THAT(names(store.snapshot()->services), ElementsAre("a/web", "b/web"));
}

TEST(Store, UnchangedServicesAreSharedBetweenSnapshots) {
  Store store("node1");
  store.fold(service("a/web").ptr());
  const auto before = store.snapshot();
  store.fold(service("b/web").ptr());
  EXPECT_EQ(before->services.find(key("a/web")), store.snapshot()->services.find(key("a/web")));
}

TEST(Store, OnlyTheOwnNodeCounts) {
  Store store("node1");
  EXPECT_TRUE(store.fold(std::make_shared<const Node>(Node{.name = "node2"})).empty());
  EXPECT_TRUE(store.fold(std::make_shared<const Node>(Node{.name = "node1", .zone = "z"})).node);
  EXPECT_EQ(store.snapshot()->node->zone, "z");
}

TEST(Store, ATaintChangesNoRules) {
  Store store("node1");
  store.fold(std::make_shared<const Node>(Node{.name = "node1", .zone = "z"}));
  const Node tainted{.name = "node1", .zone = "z", .taints = {"ToBeDeletedByClusterAutoscaler"}};
  EXPECT_TRUE(store.fold(std::make_shared<const Node>(tainted)).empty());
  EXPECT_EQ(store.snapshot()->node->taints.size(), 1U);
}

TEST(Store, ADeletedNodeKeepsItsLastState) {
  Store store("node1");
  store.fold(std::make_shared<const Node>(Node{.name = "node1", .zone = "z"}));
  EXPECT_TRUE(store.fold(NodeDeleted{"node1"}).empty());
  EXPECT_EQ(store.snapshot()->node->zone, "z");
}

TEST(Store, CidrsOfTheClusterAreSortedAndTheSameAgainIsNoChange) {
  Store store("node1");
  const auto wide = std::make_shared<const ServiceCidr>(
      ServiceCidr{"a", {build::cidr("10.96.0.0/12"), build::cidr("10.8.0.0/16")}});
  const DirtySet dirty = store.fold(wide);
  EXPECT_TRUE(dirty.service_cidrs);
  EXPECT_FALSE(dirty.node);
  EXPECT_THAT(store.snapshot()->service_cidrs,
              ElementsAre(build::cidr("10.8.0.0/16"), build::cidr("10.96.0.0/12")));
  EXPECT_TRUE(store.fold(wide).empty());
}

TEST(Store, ACidrNamedTwiceStaysWhenOneOfTheObjectsGoes) {
  Store store("node1");
  store.fold(std::make_shared<const ServiceCidr>(ServiceCidr{"a", {build::cidr("10.96.0.0/12")}}));
  store.fold(std::make_shared<const ServiceCidr>(ServiceCidr{"b", {build::cidr("10.96.0.0/12")}}));
  EXPECT_TRUE(store.fold(ServiceCidrDeleted{"a"}).empty());
  EXPECT_TRUE(store.fold(ServiceCidrDeleted{"b"}).service_cidrs);
  EXPECT_THAT(store.snapshot()->service_cidrs, IsEmpty());
}

TEST(ServiceMap, IsEmptyWhenItsLastEntryHasGone) {
  ServiceMap map;
  map.put(std::make_shared<const ServiceEntry>(ServiceEntry{key("a/web"), nullptr, {}}));
  map.erase(key("a/web"));
  EXPECT_EQ(map.size(), 0U);
  EXPECT_EQ(map.find(key("a/web")), nullptr);
  EXPECT_THAT(names(map), IsEmpty());
}

TEST(ServiceMap, StaysSortedAndCompleteThroughRandomChanges) {
  std::mt19937 random(7);
  ServiceMap map;
  std::set<std::string> model;
  for (int i = 0; i < 5000; ++i) {
    const std::string name = "ns/s" + std::to_string(random() % 700);
    if (random() % 3 == 0) {
      map.erase(key(name));
      model.erase(name);
    } else {
      map.put(std::make_shared<const ServiceEntry>(ServiceEntry{key(name), nullptr, {}}));
      model.insert(name);
    }
  }
  EXPECT_EQ(map.size(), model.size());
  EXPECT_EQ(names(map), std::vector<std::string>(model.begin(), model.end()));
  for (const auto& name : model)
    EXPECT_NE(map.find(key(name)), nullptr);
}

TEST(DirtySet, MergingIsAUnion) {
  DirtySet a;
  a.services = {key("a/a"), key("a/b")};
  DirtySet b;
  b.services = {key("a/b"), key("a/c")};
  b.node = true;
  a.merge(b);
  EXPECT_THAT(a.services, ElementsAre(key("a/a"), key("a/b"), key("a/c")));
  EXPECT_TRUE(a.node);
  EXPECT_FALSE(a.service_cidrs);
}

TEST(DirtySet, NodeAndCidrsAreDirtyIfEitherSideSaysSo) {
  const auto merged = [](bool DirtySet::* part, bool one, bool other) {
    DirtySet a;
    DirtySet b;
    a.*part = one;
    b.*part = other;
    a.merge(b);
    return a.*part;
  };
  for (bool DirtySet::* part : {&DirtySet::node, &DirtySet::service_cidrs}) {
    EXPECT_FALSE(merged(part, false, false));
    EXPECT_TRUE(merged(part, true, false));
    EXPECT_TRUE(merged(part, false, true));
    EXPECT_TRUE(merged(part, true, true));
  }
}

}  // namespace
}  // namespace model
