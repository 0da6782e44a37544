#include "backend/userspace/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/iptables/chains.h"
#include "backend/iptables/tables.h"
#include "backend/userspace/test_plans.h"

namespace userspace {
namespace {

using build::ip;
using build::service;
using iptables::Table;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Settings settings(PortRange range = {}) {
  return {.context = context(),
          .listen = {},
          .host = ip("192.168.0.2"),
          .ports = range,
          .local_traffic = {}};
}

model::Snapshot snapshot(std::initializer_list<service> services) {
  model::Snapshot all;
  for (const auto& one : services)
    all.services.put(std::make_shared<model::ServiceEntry>(build::entry(one)));
  return all;
}
service a() { return service("default/a").cluster_ip("10.96.0.1").port("http", 80, 30080); }
service b() {
  return service("default/b").cluster_ip("10.96.0.2").port("dns", 53, 0, net::Protocol::Udp);
}

std::string portals(const std::vector<iptables::FixedChain>& chains) {
  return chains.at(static_cast<size_t>(PortalChain::ServicesContainer)).rules;
}

std::string nat_dump(const std::vector<iptables::FixedChain>& chains) {
  std::string dump;
  for (const auto& chain : chains)
    dump += chain.rules;
  return dump;
}

TEST(Image, PortsAreCountedInTheOrderOfServices) {
  EXPECT_EQ(portals(chains_of(settings(), snapshot({b(), a()}))),
            "-A KUBE-PORTALS-CONTAINER -d 10.96.0.1/32 -p tcp -m comment --comment "
            "\"default/a:http\" -m tcp --dport 80 -j REDIRECT --to-ports 40000\n"
            "-A KUBE-PORTALS-CONTAINER -d 10.96.0.2/32 -p udp -m comment --comment "
            "\"default/b:dns\" -m udp --dport 53 -j REDIRECT --to-ports 40001\n");
  EXPECT_THAT(portals(chains_of(settings({1000, 1001}), snapshot({a(), b()}))),
              HasSubstr("\"default/b:dns\" -m udp --dport 53 -j REDIRECT --to-ports 1001\n"));
}

TEST(Image, PortsOfTheKernelComeFirst) {
  const auto before = chains_of(settings(), snapshot({b()}));
  const auto adopted = AdoptedPorts::parse(nat_dump(before));
  const auto after = portals(chains_of(settings(), snapshot({a(), b()}), adopted));
  EXPECT_THAT(after,
              HasSubstr("\"default/b:dns\" -m udp --dport 53 -j REDIRECT --to-ports 40000\n"));
  EXPECT_THAT(after,
              HasSubstr("\"default/a:http\" -m tcp --dport 80 -j REDIRECT --to-ports 40001\n"));
}

TEST(Image, WhatWasWrittenIsWantedAgain) {
  const auto state = snapshot({a().external_ip("192.0.2.1").local_external(), b()});
  const auto before = chains_of(settings(), state);
  iptables::Tables tables = iptables::Tables::empty();
  ASSERT_TRUE(tables.apply(iptables::chains_missing(before, jumps(), {}).str()));
  const auto after = chains_of(settings(), state, AdoptedPorts::parse(tables.save()));
  EXPECT_TRUE(iptables::chains_changed(before, after).empty());
}

TEST(Image, WithoutAPortLeftAServicePortHasNoRules) {
  const auto text = portals(chains_of(settings({1000, 1000}), snapshot({a(), b()})));
  EXPECT_THAT(text, HasSubstr("default/a:http"));
  EXPECT_THAT(text, Not(HasSubstr("default/b:dns")));
}

TEST(Image, SctpIsLeftOut) {
  const auto sctp =
      service("default/s").cluster_ip("10.96.0.3").port("s", 80, 0, net::Protocol::Sctp);
  EXPECT_THAT(portals(chains_of(settings(), snapshot({sctp}))), IsEmpty());
}

}  // namespace
}  // namespace userspace
