#include "plan/gone.h"

#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/store.h"
#include "support/builders.h"

namespace plan {
namespace {

using build::ip;
using build::key;
using build::service;
using build::slice;
using model::ServiceMap;
using net::Family;
using testing::ElementsAre;
using testing::IsEmpty;

const TcpEnd kPod{ip("10.244.1.5"), 8080};

// A cluster whose changes go to the index one step at a time.
class Cluster {
 public:
  // What is gone after the changes.
  template <typename... Changes>
  std::vector<TcpEnd> fold(Changes... changes) {
    model::DirtySet dirty;
    (dirty.merge(store_.fold(std::move(changes))), ...);
    const auto now = store_.snapshot();
    const auto gone = uses_.update(plan::changes(before_->services, now->services, dirty.services));
    before_ = now;
    return gone;
  }

  const EndpointUses& uses() const { return uses_; }

 private:
  model::Store store_{"node1"};
  model::SnapshotPtr before_ = std::make_shared<const model::Snapshot>();
  EndpointUses uses_{Family::V4};
};

service web(const char* name = "default/web") {
  return service(name).cluster_ip("10.96.0.1").port("", 80);
}
slice web_slice(const char* name = "default/web") { return slice(name, "s").port("", 8080); }

TEST(EndpointUses, AnEndpointThatIsNotListedAnyMoreIsGone) {
  Cluster cluster;
  EXPECT_THAT(cluster.fold(web().ptr(), web_slice().ready("10.244.1.5").ptr()), IsEmpty());
  EXPECT_THAT(cluster.fold(web_slice().ptr()), ElementsAre(kPod));
}

TEST(EndpointUses, ATerminatingOrUnreadyEndpointIsNotGone) {
  Cluster cluster;
  cluster.fold(web().ptr(), web_slice().ready("10.244.1.5").ptr());
  EXPECT_THAT(cluster.fold(web_slice().draining("10.244.1.5").ptr()), IsEmpty());
  EXPECT_THAT(cluster.fold(web_slice().not_ready("10.244.1.5").ptr()), IsEmpty());
  EXPECT_THAT(cluster.fold(web_slice().ptr()), ElementsAre(kPod));
}

TEST(EndpointUses, AnEndpointThatAnotherServiceHasIsNotGone) {
  Cluster cluster;
  cluster.fold(web().ptr(), web_slice().ready("10.244.1.5").ptr());
  cluster.fold(web("default/b").ptr(), web_slice("default/b").ready("10.244.1.5").ptr());
  EXPECT_THAT(cluster.fold(web_slice().ptr()), IsEmpty());
  EXPECT_THAT(cluster.fold(web_slice("default/b").ptr()), ElementsAre(kPod));
}

TEST(EndpointUses, AnEndpointThatMovesToAnotherServiceIsNotGone) {
  Cluster cluster;
  cluster.fold(web("default/a").ptr(), web("default/z").ptr());
  cluster.fold(web_slice("default/a").ready("10.244.1.5").ptr());
  EXPECT_THAT(
      cluster.fold(web_slice("default/a").ptr(), web_slice("default/z").ready("10.244.1.5").ptr()),
      IsEmpty());
  EXPECT_THAT(
      cluster.fold(web_slice("default/z").ptr(), web_slice("default/a").ready("10.244.1.5").ptr()),
      IsEmpty());
}

TEST(EndpointUses, TheEndpointsOfADeletedServiceAreGone) {
  Cluster cluster;
  cluster.fold(web().ptr(), web_slice().ready("10.244.1.5").ptr());
  EXPECT_THAT(cluster.fold(model::ServiceDeleted{key("default/web")}), ElementsAre(kPod));
}

TEST(EndpointUses, AnotherPortOfTheSamePodIsAnotherEndpoint) {
  Cluster cluster;
  cluster.fold(web().ptr(), web_slice().port("b", 8081).ready("10.244.1.5").ptr());
  EXPECT_THAT(cluster.fold(web_slice().ready("10.244.1.5").ptr()),
              ElementsAre(TcpEnd{ip("10.244.1.5"), 8081}));
}

TEST(EndpointUses, OnlyTcpOfProxiedServicesInTheFamilyCounts) {
  Cluster cluster;
  cluster.fold(web().ptr());
  cluster.fold(
      slice("default/web", "u").port("", 53, net::Protocol::Udp).ready("10.244.1.5").ptr());
  cluster.fold(slice("default/web", "v6", Family::V6).port("", 80).ready("fd00::5").ptr());
  cluster.fold(web("default/h").skipped(model::SkipReason::Headless).ptr(),
               web_slice("default/h").ready("10.244.1.5").ptr());
  EXPECT_EQ(cluster.uses().size(), 0U);
}

TEST(Changes, OfAllServicesThoseThatDifferAreFound) {
  model::Store store("node1");
  store.fold(web("a/kept").ptr());
  store.fold(web("a/gone").ptr());
  store.fold(web("a/changed").ptr());
  const auto before = store.snapshot();
  store.fold(model::ServiceDeleted{key("a/gone")});
  store.fold(web("a/changed").port("b", 81).ptr());
  store.fold(web("a/new").ptr());
  std::map<std::string, std::pair<bool, bool>> found;
  for (const auto& change : changes(before->services, store.snapshot()->services)) {
    const auto& one = change.before ? change.before : change.now;
    found[one->key.name] = {change.before != nullptr, change.now != nullptr};
  }
  EXPECT_THAT(found, ElementsAre(testing::Pair("changed", testing::Pair(true, true)),
                                 testing::Pair("gone", testing::Pair(true, false)),
                                 testing::Pair("new", testing::Pair(false, true))));
}

// A change in a small world, where endpoints are shared and come back all the time.
model::Change any_change() {
  const std::string name = "default/s" + std::to_string(*rc::gen::inRange(0, 3));
  const int what = *rc::gen::inRange(0, 8);
  if (what == 0) return model::ServiceDeleted{key(name)};
  if (what <= 2) {
    auto made = web(name.c_str());
    if (*rc::gen::inRange(0, 4) == 0) made.skipped(model::SkipReason::Headless);
    return made.ptr();
  }
  const std::string slice_name = "e" + std::to_string(*rc::gen::inRange(0, 2));
  if (what == 3) return model::SliceDeleted{{key(name), slice_name}};
  auto made = slice(name, slice_name).port("", 8080);
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i)
    made.ready("10.0.0." + std::to_string(*rc::gen::inRange(1, 4)));
  return made.ptr();
}

TEST(EndpointUses, StepByStepIsTheSameAsFromScratch) {
  EXPECT_TRUE(rc::check([] {
    model::Store store("node1");
    EndpointUses stepwise(Family::V4);
    auto before = store.snapshot();
    for (int step = *rc::gen::inRange(1, 20); step > 0; --step) {
      model::DirtySet dirty;
      for (int i = *rc::gen::inRange(1, 4); i > 0; --i)
        dirty.merge(store.fold(any_change()));
      const auto now = store.snapshot();
      EndpointUses old(Family::V4);
      old.update(changes(ServiceMap{}, before->services));
      EndpointUses fresh(Family::V4);
      fresh.update(changes(ServiceMap{}, now->services));

      const auto gone = stepwise.update(changes(before->services, now->services, dirty.services));
      RC_ASSERT(stepwise.size() == fresh.size());
      for (int last = 1; last < 4; ++last) {
        const TcpEnd end{ip("10.0.0." + std::to_string(last)), 8080};
        RC_ASSERT(stepwise.contains(end) == fresh.contains(end));
        const bool is_gone = std::ranges::find(gone, end) != gone.end();
        RC_ASSERT(is_gone == (old.contains(end) && !fresh.contains(end)));
      }
      before = now;
    }
  }));
}

net::Flow flow(const char* to, uint16_t port, const TcpEnd& answers) {
  const auto client = ip("10.244.2.9");
  return {
      net::Protocol::Tcp, {client, ip(to), 4711, port}, {answers.ip, client, answers.port, 4711}};
}

TEST(FrontEnds, AreTheAddressesAndNodePortsOfAService) {
  const std::vector here{ip("172.31.0.11")};
  FrontEnds fronts;
  fronts.add(build::entry(service("default/web")
                              .cluster_ip("10.96.0.1")
                              .load_balancer("203.0.113.1")
                              .external_ip("198.51.100.1")
                              .port("", 80, 30080)));
  for (const char* to : {"10.96.0.1", "203.0.113.1", "198.51.100.1"})
    EXPECT_TRUE(fronts.redirected(flow(to, 80, kPod), here)) << to;
  EXPECT_TRUE(fronts.redirected(flow("172.31.0.11", 30080, kPod), here));
  EXPECT_FALSE(fronts.redirected(flow("172.31.0.11", 80, kPod), here)) << "a hostPort";
  EXPECT_FALSE(fronts.redirected(flow("10.96.0.1", 81, kPod), here));
  EXPECT_FALSE(fronts.redirected(flow("172.31.0.12", 30080, kPod), here)) << "of a neighbour";
}

TEST(FrontEnds, AServiceMayHaveNoNodePort) {
  FrontEnds fronts;
  fronts.add(build::entry(web()));
  EXPECT_FALSE(fronts.redirected(flow("172.31.0.11", 0, kPod), std::vector{ip("172.31.0.11")}));
}

TEST(FrontEnds, AConnectionThatWasNotLedElsewhereIsNotOurs) {
  FrontEnds fronts;
  fronts.add(build::entry(web()));
  EXPECT_FALSE(fronts.redirected(flow("10.96.0.1", 80, {ip("10.96.0.1"), 80}), {}));
}

}  // namespace
}  // namespace plan
