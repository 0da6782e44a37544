#include "backend/userspace/endpoints.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/userspace/test_plans.h"

namespace userspace {
namespace {

using build::ip;
using build::service;
using build::slice;
using std::chrono::seconds;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr const char* kWeb = "default/web";

class EndpointsTest : public testing::Test {
 protected:
  service web() const { return service(kWeb).cluster_ip("10.96.0.10").port("http", 80, 30080); }
  slice pods(std::initializer_list<const char*> addresses) const {
    slice made(kWeb, "web-1");
    made.port("http", 8080);
    for (const char* address : addresses)
      made.ready(address, "node1");
    return made;
  }
  bool update(const plan::PortPlan& plan, seconds drain = seconds(0)) {
    return endpoints.update(plan, {.now = now, .drain = drain}, random);
  }
  relay::TargetPtr find(const char* address) {
    for (const auto& target : endpoints.list(List::Cluster)->targets())
      if (target->ip() == ip(address)) return target;
    return nullptr;
  }

  std::mt19937 random{1};
  relay::Time now = relay::Clock::now();
  Endpoints endpoints;
};

TEST_F(EndpointsTest, EqualContentKeepsItsList) {
  update(plan_of(web(), pods({"10.0.0.1", "10.0.0.2"})));
  const auto list = endpoints.list(List::Cluster);
  EXPECT_THAT(list->targets(), SizeIs(2));
  EXPECT_FALSE(update(plan_of(web(), pods({"10.0.0.2", "10.0.0.1"}))));
  EXPECT_EQ(endpoints.list(List::Cluster), list);
}

TEST_F(EndpointsTest, AnEndpointStaysTheSameInAnotherList) {
  update(plan_of(web(), pods({"10.0.0.1"})));
  const auto target = find("10.0.0.1");
  update(plan_of(web(), pods({"10.0.0.1", "10.0.0.2"})));
  EXPECT_EQ(find("10.0.0.1"), target);
  EXPECT_FALSE(target->gone());
}

TEST_F(EndpointsTest, NotReadyIsOutOfTheListButNotGone) {
  update(plan_of(web(), pods({"10.0.0.1", "10.0.0.2"})));
  const auto target = find("10.0.0.1");
  EXPECT_FALSE(update(plan_of(web(), pods({"10.0.0.2"}).not_ready("10.0.0.1", "node1"))));
  EXPECT_EQ(find("10.0.0.1"), nullptr);
  EXPECT_FALSE(target->gone());
}

TEST_F(EndpointsTest, OneThatIsListedNoMoreLeavesForEver) {
  update(plan_of(web(), pods({"10.0.0.1"})));
  const auto target = find("10.0.0.1");
  EXPECT_TRUE(update(plan_of(web())));
  EXPECT_TRUE(target->gone());
  EXPECT_EQ(target->deadline(), relay::Time::max());
}

TEST_F(EndpointsTest, OneThatReturnsInTimeIsTheSame) {
  update(plan_of(web(), pods({"10.0.0.1"})), seconds(30));
  const auto target = find("10.0.0.1");
  update(plan_of(web()), seconds(30));
  EXPECT_EQ(target->deadline(), now + seconds(30));
  EXPECT_TRUE(endpoints.forget(now + seconds(29)));
  update(plan_of(web(), pods({"10.0.0.1"})), seconds(30));
  EXPECT_EQ(find("10.0.0.1"), target);
  EXPECT_FALSE(target->gone());
}

TEST_F(EndpointsTest, OneThatReturnsTooLateIsAnother) {
  update(plan_of(web(), pods({"10.0.0.1"})), seconds(30));
  const auto target = find("10.0.0.1");
  update(plan_of(web()), seconds(30));
  EXPECT_FALSE(endpoints.forget(now + seconds(30)));
  update(plan_of(web(), pods({"10.0.0.1"})), seconds(30));
  EXPECT_NE(find("10.0.0.1"), target);
  EXPECT_TRUE(target->gone());
}

TEST_F(EndpointsTest, AllLeaveWithTheirService) {
  update(plan_of(web(), pods({"10.0.0.1", "10.0.0.2"})));
  const auto targets = endpoints.list(List::Cluster)->targets();
  EXPECT_TRUE(endpoints.leave({.now = now, .drain = seconds(5)}));
  for (const auto& target : targets)
    EXPECT_TRUE(target->gone());
}

TEST_F(EndpointsTest, TheLocalListHasEndpointsOfThisNode) {
  const auto policy = web().node_port_type().local_external();
  update(plan_of(policy, here(kWeb), elsewhere(kWeb)));
  EXPECT_THAT(endpoints.list(List::Cluster)->targets(), SizeIs(2));
  ASSERT_THAT(endpoints.list(List::Local)->targets(), SizeIs(1));
  EXPECT_EQ(endpoints.list(List::Local)->targets()[0], find("10.244.1.2"));
  EXPECT_EQ(endpoints.list(List::None), nullptr);
}

TEST_F(EndpointsTest, AffinityIsSwitchedOnAndOff) {
  const net::IpAddr client = ip("192.0.2.7");
  update(plan_of(web().affinity(100), pods({"10.0.0.1", "10.0.0.2"})));
  auto list = endpoints.list(List::Cluster);
  const auto first = list->next(client, false, now);
  EXPECT_EQ(list->next(client, false, now), first);
  update(plan_of(web(), pods({"10.0.0.1", "10.0.0.2"})));
  list = endpoints.list(List::Cluster);
  EXPECT_NE(list->next(client, false, now), list->next(client, false, now));
}

TEST_F(EndpointsTest, AClientKeepsItsEndpointWhenOthersCome) {
  const net::IpAddr client = ip("192.0.2.7");
  update(plan_of(web().affinity(100), pods({"10.0.0.1", "10.0.0.2"})));
  const auto first = endpoints.list(List::Cluster)->next(client, false, now);
  update(plan_of(web().affinity(200), pods({"10.0.0.1", "10.0.0.2", "10.0.0.3"})));
  EXPECT_EQ(endpoints.list(List::Cluster)->next(client, false, now + seconds(150)), first);
}

TEST_F(EndpointsTest, ListsAreShuffled) {
  std::set<std::string> firsts;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    random.seed(seed);
    Endpoints fresh;
    fresh.update(plan_of(web(), pods({"10.0.0.1", "10.0.0.2", "10.0.0.3"})), {.now = now}, random);
    firsts.insert(fresh.list(List::Cluster)->targets()[0]->ip().str());
  }
  EXPECT_THAT(firsts, UnorderedElementsAre("10.0.0.1", "10.0.0.2", "10.0.0.3"));
}

}  // namespace
}  // namespace userspace
