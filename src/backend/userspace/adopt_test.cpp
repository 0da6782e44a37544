#include "backend/userspace/adopt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "backend/userspace/test_plans.h"

namespace userspace {
namespace {

using build::ip;
using build::service;
using testing::ElementsAre;
using testing::IsEmpty;

service web() {
  return service("default/web")
      .cluster_ip("10.96.0.10")
      .port("http", 80, 30080)
      .external_ip("192.168.99.11")
      .load_balancer("1.2.3.4");
}

std::string dump_of(const PortalOptions& options, const plan::PortPlan& plan,
                    const ProxyPorts& ports) {
  PortalLines lines;
  for (const auto& portal : portals_of(plan, ports))
    append_rules(options, plan.name, portal, lines);
  std::string dump = "*nat\n:KUBE-PORTALS-CONTAINER - [0:0]\n";
  for (const auto& text : lines)
    dump += text;
  return dump + "COMMIT\n";
}

TEST(AdoptedPorts, EachFrontFindsItsPortAgain) {
  const auto plan = plan_of(web().local_external().source_range("203.0.113.0/24"));
  const ProxyPorts ports{40000, 40001, 40002};
  for (const char* listen : {"0.0.0.0", "192.168.0.2"}) {
    const PortalOptions options{
        .family = net::Family::V4, .listen = ip(listen), .host = ip("192.168.0.2")};
    const auto adopted = AdoptedPorts::parse(dump_of(options, plan, ports));
    EXPECT_EQ(adopted.of(plan), ports);
    EXPECT_THAT(adopted.all(), ElementsAre(40000, 40001, 40002));
  }
}

TEST(AdoptedPorts, PortsOfIPv6AreFound) {
  const auto plan = plan::compile_service(
                        build::entry(service("default/web").cluster_ip("fd00:96::a").port("", 80)),
                        context(net::Family::V6))
                        .ports.at(0);
  const PortalOptions options{
      .family = net::Family::V6, .listen = ip("fd00::2"), .host = ip("fd00::2")};
  EXPECT_EQ(AdoptedPorts::parse(dump_of(options, plan, {40000, 0, 0})).of(plan),
            (ProxyPorts{40000, 0, 0}));
}

TEST(AdoptedPorts, AnotherServiceAtThatAddressDoesNotInheritThePort) {
  const auto adopted = AdoptedPorts::parse(dump_of({}, plan_of(web()), {40000, 0, 0}));
  const auto other = service("default/other").cluster_ip("10.96.0.10").port("http", 80);
  EXPECT_EQ(adopted.of(plan_of(other)), ProxyPorts{});
}

TEST(AdoptedPorts, RulesOfOthersAreNoneOfOurs) {
  const auto adopted = AdoptedPorts::parse(
      "*nat\n-A PREROUTING -p tcp -j REDIRECT --to-ports 8080\n"
      "-A KUBE-PORTALS-CONTAINER -j REDIRECT --to-ports 99999\n"
      "-A KUBE-PORTALS-CONTAINER -j RETURN\n-A KUBE-PORTALS-CONTAINER\nCOMMIT\n");
  EXPECT_THAT(adopted.all(), IsEmpty());
}

RC_GTEST_PROP(AdoptedPorts, AnyTextIsRead, (const std::string& text)) {
  AdoptedPorts::parse("-A KUBE-PORTALS-CONTAINER" + text);
  AdoptedPorts::parse("-A KUBE-PORTALS-CONTAINER -j DNAT --to-destination " + text);
}

}  // namespace
}  // namespace userspace
