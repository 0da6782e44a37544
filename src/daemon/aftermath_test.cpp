#include "daemon/aftermath.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/builders.h"

namespace proxyd {
namespace {

using build::key;
using build::service;
using build::slice;
using model::ServiceType;
using net::Protocol;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A store whose changes are programmed at once, and what follows from that.
class AftermathTest : public testing::Test {
 protected:
  Aftermath::Parts parts() {
    return {.context = {.node_name = "node1", .zone = {}, .node_ip = {}},
            .metrics = metrics_,
            .health = health_,
            .publish = [this](auto ports) { published_.push_back(std::move(ports)); },
            .sweep = [this](const plan::FlowJudge& judge) -> base::Result<kernel::Sweep> {
              ++sweeps_;
              if (fail_) return kernel_failure();
              judged_stale_ = judge.stale(flow_);
              return kernel::Sweep{.seen = 10, .deleted = 3};
            },
            .first_synced = [this] { ++first_syncs_; },
            .clock = [] { return Aftermath::Wall(seconds(1000)); }};
  }

  static base::Result<kernel::Sweep> kernel_failure() {
    return base::fail(base::ErrorCode::Busy, "told to fail");
  }
  void sync(std::initializer_list<model::Change> changes, const TriggerTimes& triggers = {}) {
    model::DirtySet dirty;
    for (const auto& change : changes)
      dirty.merge(store_.fold(change));
    const auto snapshot = store_.snapshot();
    aftermath_.synced({.snapshot = snapshot, .dirty = dirty, .triggers = triggers}, {});
  }
  static model::Change local_lb(std::string_view name, uint16_t port) {
    return service(name)
        .load_balancer("203.0.113.1")
        .cluster_ip("10.96.0.1")
        .port("http", 80)
        .local_external()
        .health_check(port)
        .ptr();
  }
  static model::Change backend(std::string_view name, std::string_view node) {
    return slice(name, "one").port("http", 8080).ready("10.244.0.2", node).ptr();
  }
  static model::Change dns(std::string_view endpoint) {
    return slice("kube/dns", "one").port("dns", 53, Protocol::Udp).ready(endpoint).ptr();
  }

  model::Store store_{"node1"};
  std::shared_ptr<metrics::Metrics> metrics_ = std::make_shared<metrics::Metrics>("iptables");
  serve::Health::Steady steady_;
  std::shared_ptr<serve::Health> health_ = std::make_shared<serve::Health>(
      seconds(60), serve::Health::Clocks{.steady = [this] { return steady_; }});
  std::vector<std::shared_ptr<const serve::HealthPorts>> published_;
  int sweeps_ = 0;
  int first_syncs_ = 0;
  bool fail_ = false;
  bool judged_stale_ = false;
  net::Flow flow_;
  Aftermath aftermath_{parts()};
};

TEST_F(AftermathTest, HealthCheckPortsAreThoseOfServicesWithLocalPolicy) {
  sync({local_lb("a/lb", 31000), backend("a/lb", "node1"),
        service("a/web").cluster_ip("10.96.0.2").port("", 80).ptr()});
  ASSERT_EQ(published_.size(), 1U);
  EXPECT_THAT(*published_[0], ElementsAre(std::pair(key("a/lb"), serve::HealthPort{31000, 1})));
}

TEST_F(AftermathTest, TheSamePointerIsPublishedWhileNothingChanges) {
  sync({local_lb("a/lb", 31000)});
  sync({});
  sync({service("a/web").cluster_ip("10.96.0.2").port("", 80).ptr()});
  sync({backend("a/lb", "node1")});
  ASSERT_EQ(published_.size(), 4U);
  EXPECT_EQ(published_[0], published_[1]);
  EXPECT_EQ(published_[1], published_[2]);
  EXPECT_NE(published_[2], published_[3]);
}

TEST_F(AftermathTest, ADeletedServiceTakesItsHealthCheckPortAlong) {
  sync({local_lb("a/lb", 31000)});
  sync({model::ServiceDeleted{key("a/lb")}});
  EXPECT_THAT(*published_.back(), IsEmpty());
}

TEST_F(AftermathTest, PortsWithoutLocalEndpointsAreCountedUpAndDown) {
  sync({local_lb("a/lb", 31000), backend("a/lb", "node2")});
  EXPECT_THAT(
      metrics_->text(),
      HasSubstr("no_local_endpoints_total{ip_family=\"IPv4\",traffic_policy=\"external\"} 1"));
  sync({backend("a/lb", "node1")});
  EXPECT_THAT(
      metrics_->text(),
      HasSubstr("no_local_endpoints_total{ip_family=\"IPv4\",traffic_policy=\"external\"} 0"));
}

TEST_F(AftermathTest, InModeIpvsServicesAreCountedAndNotTheirPorts) {
  auto of_ipvs = parts();
  of_ipvs.counts_services = true;
  aftermath_ = Aftermath(std::move(of_ipvs));
  sync({service("a/lb")
            .load_balancer("203.0.113.1")
            .cluster_ip("10.96.0.1")
            .port("http", 80)
            .port("https", 443)
            .local_external()
            .ptr(),
        slice("a/lb", "one")
            .port("http", 80)
            .port("https", 443)
            .ready("10.244.0.2", "node2")
            .ptr()});
  EXPECT_THAT(
      metrics_->text(),
      HasSubstr("no_local_endpoints_total{ip_family=\"IPv4\",traffic_policy=\"external\"} 1"));
}

TEST_F(AftermathTest, ConnectionsAreLookedAtOnlyWhenAUdpServiceChanges) {
  sync({local_lb("a/lb", 31000)});
  EXPECT_EQ(sweeps_, 0);
  sync({service("kube/dns").cluster_ip("10.96.0.10").port("dns", 53, 0, Protocol::Udp).ptr()});
  EXPECT_EQ(sweeps_, 1);
  sync({backend("a/lb", "node1")});
  EXPECT_EQ(sweeps_, 1);
  sync({dns("10.244.0.3")});
  EXPECT_EQ(sweeps_, 2);
  sync({model::ServiceDeleted{key("kube/dns")}});
  EXPECT_EQ(sweeps_, 3);
  EXPECT_THAT(metrics_->text(),
              HasSubstr("conntrack_reconciler_deleted_entries_total{ip_family=\"IPv4\"} 9"));
}

TEST_F(AftermathTest, AModeMayLookAfterConnectionsItself) {
  auto own = parts();
  own.sweep = nullptr;
  Aftermath aftermath(std::move(own));
  const auto dirty = store_.fold(
      service("kube/dns").cluster_ip("10.96.0.10").port("dns", 53, 0, Protocol::Udp).ptr());
  const auto snapshot = store_.snapshot();
  aftermath.synced({.snapshot = snapshot, .dirty = dirty, .triggers = {}}, {});
  EXPECT_EQ(sweeps_, 0);
  EXPECT_FALSE(aftermath.next()) << "nothing is owed";
}

TEST_F(AftermathTest, AConnectionToAFormerEndpointIsStale) {
  flow_ = {.protocol = Protocol::Udp,
           .original = {build::ip("10.244.0.9"), build::ip("10.96.0.10"), 4711, 53},
           .reply = {build::ip("10.244.0.3"), build::ip("10.244.0.9"), 53, 4711}};
  sync({service("kube/dns").cluster_ip("10.96.0.10").port("dns", 53, 0, Protocol::Udp).ptr(),
        dns("10.244.0.3")});
  EXPECT_FALSE(judged_stale_);
  sync({dns("10.244.0.4")});
  EXPECT_TRUE(judged_stale_);
}

TEST_F(AftermathTest, AFailedCleanUpIsTriedAgainWithTheSameQuestion) {
  flow_ = {.protocol = Protocol::Udp,
           .original = {build::ip("10.244.0.9"), build::ip("10.96.0.10"), 4711, 53},
           .reply = {build::ip("10.244.0.3"), build::ip("10.244.0.9"), 53, 4711}};
  sync({service("kube/dns").cluster_ip("10.96.0.10").port("dns", 53, 0, Protocol::Udp).ptr(),
        dns("10.244.0.3")});
  fail_ = true;
  sync({model::ServiceDeleted{key("kube/dns")}});
  EXPECT_FALSE(judged_stale_);
  EXPECT_EQ(aftermath_.next(), Aftermath::Time(Aftermath::kSweepAgain));
  fail_ = false;
  aftermath_.run(Aftermath::Time(Aftermath::kSweepAgain));
  EXPECT_TRUE(judged_stale_);
  EXPECT_EQ(sweeps_, 3);
  EXPECT_FALSE(aftermath_.next());
  sync({});
  EXPECT_EQ(sweeps_, 3);
}

TEST_F(AftermathTest, TheFirstSyncIsToldOnce) {
  EXPECT_EQ(first_syncs_, 0);
  sync({});
  sync({});
  EXPECT_EQ(first_syncs_, 1);
}

TEST_F(AftermathTest, HealthIsUpToDateAgainAfterASync) {
  aftermath_.queued();
  steady_ += seconds(60);
  EXPECT_FALSE(health_->healthy());
  sync({});
  EXPECT_TRUE(health_->healthy());
  EXPECT_FALSE(health_->look().families[1]);
}

TEST_F(AftermathTest, LatenciesAreObservedForEachTriggerTime) {
  TriggerTimes triggers;
  triggers.add(net::Family::V4, key("a/b"), TriggerTimes::Time(seconds(990)));
  triggers.add(net::Family::V4, key("a/b"), TriggerTimes::Time(seconds(998)));
  triggers.add(net::Family::V6, key("a/b"), TriggerTimes::Time(seconds(998)));
  sync({}, triggers);
  const std::string text = metrics_->text();
  EXPECT_THAT(text, HasSubstr("network_programming_duration_seconds_sum{ip_family=\"IPv4\"} 12\n"));
  EXPECT_THAT(text,
              HasSubstr("network_programming_duration_seconds_count{ip_family=\"IPv4\"} 2\n"));
  EXPECT_THAT(text,
              Not(HasSubstr("network_programming_duration_seconds_count{ip_family=\"IPv6\"}")));
}

}  // namespace
}  // namespace proxyd
