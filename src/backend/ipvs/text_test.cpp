#include "backend/ipvs/text.h"

#include <gtest/gtest.h>

#include "support/builders.h"

namespace ipvs {
namespace {

using build::cidr;
using build::ip;
using kernel::VirtualServer;

Observed::Server server(std::string_view address, uint16_t port,
                        net::Protocol protocol = net::Protocol::Tcp) {
  return {.server = {.key = {ip(address), port, protocol}, .scheduler = "rr"}, .reals = {}};
}

TEST(IpvsText, ServersAreSortedWithTheirRealOnes) {
  Observed state;
  state.servers.push_back(server("10.96.0.2", 53, net::Protocol::Udp));
  state.servers.push_back(server("10.96.0.1", 443));
  state.servers.back().reals = {{ip("10.244.0.2"), 6443, 1}, {ip("10.244.0.1"), 6443, 0}};
  EXPECT_EQ(servers_text(state),
            "-A -t 10.96.0.1:443 -s rr\n"
            "-a -t 10.96.0.1:443 -r 10.244.0.1:6443 -m -w 0\n"
            "-a -t 10.96.0.1:443 -r 10.244.0.2:6443 -m -w 1\n"
            "-A -u 10.96.0.2:53 -s rr\n");
}

TEST(IpvsText, ServersHaveTheirOptions) {
  Observed state;
  state.servers.push_back(server("10.96.0.1", 99, net::Protocol::Sctp));
  state.servers.back().server.flags = VirtualServer::kPersistent;
  state.servers.back().server.timeout_s = 10800;
  state.servers.push_back(server("fd00::1", 80));
  state.servers.back().server.scheduler = "mh";
  state.servers.back().server.flags = VirtualServer::kHashesPort;
  EXPECT_EQ(servers_text(state),
            "-A --sctp-service 10.96.0.1:99 -s rr -p 10800\n"
            "-A -t [fd00::1]:80 -s mh -b mh-port\n");
}

TEST(IpvsText, MembersAreWrittenByTheTypeOfTheirSet) {
  Observed state;
  const auto members = [&](SetId set) -> auto& { return state.sets.at(static_cast<size_t>(set)); };
  members(SetId::LoopBack) = {
      {.ip = ip("10.244.0.1"), .port = 80, .other = net::Cidr::host(ip("10.244.0.1"))}};
  members(SetId::ClusterIp) = {{.ip = ip("10.96.0.1"), .protocol = net::Protocol::Udp, .port = 53}};
  members(SetId::LoadBalancerSourceCidr) = {
      {.ip = ip("192.0.2.1"), .port = 80, .other = cidr("198.51.100.7/32")},
      {.ip = ip("192.0.2.1"), .port = 80, .other = cidr("10.0.0.0/8")}};
  members(SetId::NodePortTcp) = {{.port = 30081}, {.port = 30080}};
  members(SetId::IpvsIps) = {{.ip = ip("10.96.0.1")}};
  EXPECT_EQ(sets_text(state, net::Family::V4),
            "create KUBE-LOOP-BACK hash:ip,port,ip family inet hashsize 1024 maxelem 65536\n"
            "add KUBE-LOOP-BACK 10.244.0.1,tcp:80,10.244.0.1\n"
            "create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536\n"
            "add KUBE-CLUSTER-IP 10.96.0.1,udp:53\n"
            "create KUBE-LOAD-BALANCER-SOURCE-CIDR hash:ip,port,net family inet hashsize 1024 "
            "maxelem 65536\n"
            "add KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.1,tcp:80,10.0.0.0/8\n"
            "add KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.1,tcp:80,198.51.100.7\n"
            "create KUBE-NODE-PORT-TCP bitmap:port range 0-65535\n"
            "add KUBE-NODE-PORT-TCP 30080\n"
            "add KUBE-NODE-PORT-TCP 30081\n"
            "create KUBE-IPVS-IPS hash:ip family inet hashsize 1024 maxelem 65536\n"
            "add KUBE-IPVS-IPS 10.96.0.1\n");
}

TEST(IpvsText, SetsOfIpv6SaySo) {
  Observed state;
  state.sets.at(static_cast<size_t>(SetId::IpvsIps)).emplace();
  EXPECT_EQ(sets_text(state, net::Family::V6),
            "create KUBE-6-IPVS-IPS hash:ip family inet6 hashsize 1024 maxelem 65536\n");
}

TEST(IpvsText, AddressesHaveTheirFullLength) {
  EXPECT_EQ(addresses_text({.bound = {ip("fd00::1"), ip("10.96.0.1")}}),
            "-: kube-ipvs0    inet 10.96.0.1/32 scope global kube-ipvs0\n"
            "-: kube-ipvs0    inet6 fd00::1/128 scope global\n");
}

}  // namespace
}  // namespace ipvs
