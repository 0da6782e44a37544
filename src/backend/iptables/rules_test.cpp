#include "backend/iptables/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/builders.h"

namespace iptables {
namespace {

using build::service;
using build::slice;
using net::Family;
using net::Protocol;
using plan::LocalTraffic;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

plan::Context here(Family family = Family::V4) {
  plan::Context context;
  context.family = family;
  context.node_name = "node1";
  context.node_ip = build::ip(family == Family::V4 ? "172.31.0.11" : "fd00:31::11");
  return context;
}

service web() { return service("a/web").cluster_ip("10.96.0.1").port("", 80); }
service node_port() {
  return service("a/web").cluster_ip("10.96.0.1").port("", 80, 30080).node_port_type();
}
service balancer() { return web().load_balancer("203.0.113.1"); }
slice endpoints() { return slice("a/web", "web-1").port("", 8080); }
slice one() { return endpoints().ready("10.244.0.1", "node1"); }
slice two() { return one().ready("10.244.0.2", "node2"); }
slice remote() { return endpoints().ready("10.244.0.2", "node2"); }

RuleOptions plain() {
  RuleOptions options;
  options.localhost_node_ports = false;
  return options;
}
RuleOptions from(LocalTraffic local) {
  RuleOptions options = plain();
  options.local_traffic = std::move(local);
  return options;
}
const LocalTraffic kPods{.by = LocalTraffic::By::Source, .cidr = build::cidr("10.244.0.0/24")};
const LocalTraffic kBridge{.by = LocalTraffic::By::Interface, .interface = "cni0"};
const LocalTraffic kVeths{.by = LocalTraffic::By::InterfacePrefix, .interface = "veth"};

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

// The rules of one Service, a line for each, in short: without "-A CHAIN ", "#" for "-m comment --comment", "WEB" for
// the hash of the port and "ip:port" for that of an endpoint.
class Rendered {
 public:
  Rendered(const service& object, const slice& list, const RuleOptions& options = plain(),
           bool large = false)
      : plan_(plan::compile_service(build::entry(object, list), here(options.family))) {
    render_service(plan_, options, large, rules_);
  }

  std::vector<std::string> shared(SharedChain chain) const {
    return lines(rules_.shared[static_cast<size_t>(chain)], name(chain));
  }
  // "no such chain" if there is none.
  std::vector<std::string> chain(std::string_view name) const {
    for (const auto& chain : rules_.chains)
      if (readable(chain.name.str()) == name) return lines(rules_.rules(chain), name);
    return {"no such chain"};
  }
  std::vector<std::string> chains() const {
    std::vector<std::string> names;
    for (const auto& chain : rules_.chains)
      names.push_back(readable(chain.name.str()));
    return names;
  }

 private:
  std::vector<std::string> lines(std::string_view text, std::string_view chain) const {
    const std::string begin = "-A " + std::string(chain) + " ";
    std::vector<std::string> found;
    while (!text.empty()) {
      const size_t end = text.find('\n');
      EXPECT_NE(end, std::string_view::npos) << text;
      std::string line = readable(std::string(text.substr(0, end)));
      if (line.starts_with(begin)) line.erase(0, begin.size());
      found.push_back(std::move(line));
      text.remove_prefix(std::min(text.size(), end + 1));
    }
    return found;
  }

  std::string readable(std::string text) const {
    for (const auto& port : plan_.ports) {
      const std::string hashed = port.name + std::string(net::lower_name(port.protocol));
      replace_all(text, codec::view(codec::chain_hash(hashed)), "WEB");
      for (const auto& endpoint : port.endpoints) {
        const auto hash = codec::chain_hash(hashed + std::string(endpoint.text.view()));
        replace_all(text, codec::view(hash), endpoint.text.view());
      }
    }
    replace_all(text, " -m comment --comment \"", " # \"");
    return text;
  }

  plan::ServicePlan plan_;
  ServiceRules rules_;
};

TEST(IptablesNames, AreThoseOfTheOriginal) {
  EXPECT_EQ(
      ChainName(ChainKind::Cluster, port_hash("default/kubernetes:https", Protocol::Tcp)).str(),
      "KUBE-SVC-NPX46M4PTMTKRN6Y");
  EXPECT_EQ(
      ChainName(ChainKind::Cluster, port_hash("kube-system/kube-dns:dns", Protocol::Udp)).str(),
      "KUBE-SVC-TCOU7JCQXEZGVUNU");
}

TEST(IptablesNames, TellOurChainsFromOthers) {
  for (const auto* name : {"KUBE-SEP-X", "KUBE-SVC-X", "KUBE-SVL-X", "KUBE-EXT-X", "KUBE-FW-X"})
    EXPECT_TRUE(is_service_chain(name)) << name;
  for (const auto* name : {"KUBE-SERVICES", "KUBE-FIREWALL", "KUBE-SE", "OTHER-KUBE-SVC-X", ""})
    EXPECT_FALSE(is_service_chain(name)) << name;
}

TEST(IptablesRules, LeadFromTheClusterIpToAnEndpoint) {
  const Rendered rendered(web(), two());
  EXPECT_THAT(
      rendered.shared(SharedChain::NatServices),
      ElementsAre(
          "-d 10.96.0.1/32 -p tcp # \"a/web cluster IP\" -m tcp --dport 80 -j KUBE-SVC-WEB"));
  EXPECT_THAT(rendered.chain("KUBE-SVC-WEB"),
              ElementsAre("# \"a/web -> 10.244.0.1:8080\" -m statistic --mode random --probability "
                          "0.50000000000 -j KUBE-SEP-10.244.0.1:8080",
                          "# \"a/web -> 10.244.0.2:8080\" -j KUBE-SEP-10.244.0.2:8080"));
  EXPECT_THAT(rendered.chain("KUBE-SEP-10.244.0.2:8080"),
              ElementsAre("-s 10.244.0.2/32 # \"a/web\" -j KUBE-MARK-MASQ",
                          "-p tcp # \"a/web\" -m tcp -j DNAT --to-destination 10.244.0.2:8080"));
  EXPECT_THAT(rendered.chains(),
              ElementsAre("KUBE-SEP-10.244.0.1:8080", "KUBE-SEP-10.244.0.2:8080", "KUBE-SVC-WEB"));
}

TEST(IptablesRules, HaveNoCommentsAtEndpointsInALargeCluster) {
  const Rendered rendered(web(), two(), plain(), true);
  EXPECT_THAT(rendered.chain("KUBE-SVC-WEB"),
              ElementsAre("-m statistic --mode random --probability 0.50000000000 -j "
                          "KUBE-SEP-10.244.0.1:8080",
                          "-j KUBE-SEP-10.244.0.2:8080"));
  EXPECT_THAT(rendered.chain("KUBE-SEP-10.244.0.1:8080"),
              ElementsAre("-s 10.244.0.1/32 -j KUBE-MARK-MASQ",
                          "-p tcp -m tcp -j DNAT --to-destination 10.244.0.1:8080"));
}

TEST(IptablesRules, EachPortHasItsOwn) {
  const auto object =
      service("a/web").cluster_ip("10.96.0.1").port("x", 80).port("y", 53, 0, Protocol::Udp);
  const auto list = slice("a/web", "s").port("x", 1).port("y", 2, Protocol::Udp).ready("10.0.0.1");
  EXPECT_THAT(Rendered(object, list).shared(SharedChain::NatServices),
              ElementsAre("-d 10.96.0.1/32 -p tcp # \"a/web:x cluster IP\" -m tcp --dport 80 -j "
                          "KUBE-SVC-WEB",
                          "-d 10.96.0.1/32 -p udp # \"a/web:y cluster IP\" -m udp --dport 53 -j "
                          "KUBE-SVC-WEB"));
}

// What the dump prints for 1/n: the kernel keeps a multiple of 2^-31.
TEST(IptablesRules, GiveEveryEndpointTheSameShare) {
  auto list = endpoints();
  for (int i = 0; i < 258; ++i)
    list.ready("10.244." + std::to_string(i / 256) + "." + std::to_string(i % 256));
  const auto lines = Rendered(web(), list, plain(), true).chain("KUBE-SVC-WEB");
  ASSERT_EQ(lines.size(), 258U);
  const auto share = [&](size_t left) { return lines[258 - left]; };
  EXPECT_THAT(share(258), HasSubstr(" --probability 0.00387596898 -j "));
  EXPECT_THAT(share(257), HasSubstr(" --probability 0.00389105082 -j "));
  EXPECT_THAT(share(256), HasSubstr(" --probability 0.00390625000 -j "));
  EXPECT_THAT(share(3), HasSubstr(" --probability 0.33333333349 -j "));
  EXPECT_THAT(share(2), HasSubstr(" --probability 0.50000000000 -j "));
  EXPECT_THAT(share(1), Not(HasSubstr("probability")));
}

TEST(IptablesRules, WithoutEndpointsRefuseEverything) {
  const Rendered rendered(node_port()
                              .external_ip("198.51.100.1")
                              .load_balancer("203.0.113.1")
                              .source_range("8.8.8.8/32"),
                          endpoints().not_ready("10.244.0.1"));
  EXPECT_THAT(
      rendered.shared(SharedChain::FilterServices),
      ElementsAre("-d 10.96.0.1/32 -p tcp # \"a/web has no endpoints\" -m tcp --dport 80 -j "
                  "REJECT --reject-with icmp-port-unreachable"));
  EXPECT_THAT(
      rendered.shared(SharedChain::FilterExternal),
      ElementsAre(
          "-d 198.51.100.1/32 -p tcp # \"a/web has no endpoints\" -m tcp --dport 80 -j REJECT "
          "--reject-with icmp-port-unreachable",
          "-d 203.0.113.1/32 -p tcp # \"a/web has no endpoints\" -m tcp --dport 80 -j REJECT "
          "--reject-with icmp-port-unreachable",
          "-p tcp # \"a/web has no endpoints\" -m addrtype --dst-type LOCAL -m tcp --dport "
          "30080 -j REJECT --reject-with icmp-port-unreachable"));
  EXPECT_THAT(rendered.shared(SharedChain::NatServices), IsEmpty());
  EXPECT_THAT(rendered.shared(SharedChain::NatNodePorts), IsEmpty());
  EXPECT_THAT(rendered.shared(SharedChain::FilterFirewall), IsEmpty());
  EXPECT_THAT(rendered.chains(), IsEmpty());
}

TEST(IptablesRules, OfIpv6RefuseInItsWords) {
  RuleOptions v6 = plain();
  v6.family = Family::V6;
  const auto object = service("a/web").cluster_ip("fd00:96::1").port("", 80);
  EXPECT_THAT(
      Rendered(object, endpoints(), v6).shared(SharedChain::FilterServices),
      ElementsAre("-d fd00:96::1/128 -p tcp # \"a/web has no endpoints\" -m tcp --dport 80 -j "
                  "REJECT --reject-with icmp6-port-unreachable"));
}

TEST(IptablesRules, LeadFromOutsideThroughAChainThatMasquerades) {
  const Rendered rendered(node_port().external_ip("198.51.100.1").load_balancer("203.0.113.1"),
                          one());
  EXPECT_THAT(
      rendered.shared(SharedChain::NatServices),
      ElementsAre(
          "-d 10.96.0.1/32 -p tcp # \"a/web cluster IP\" -m tcp --dport 80 -j KUBE-SVC-WEB",
          "-d 198.51.100.1/32 -p tcp # \"a/web external IP\" -m tcp --dport 80 -j KUBE-EXT-WEB",
          "-d 203.0.113.1/32 -p tcp # \"a/web loadbalancer IP\" -m tcp --dport 80 -j "
          "KUBE-EXT-WEB"));
  EXPECT_THAT(rendered.shared(SharedChain::NatNodePorts),
              ElementsAre("-p tcp # \"a/web\" -m tcp --dport 30080 -j KUBE-EXT-WEB"));
  EXPECT_THAT(
      rendered.chain("KUBE-EXT-WEB"),
      ElementsAre("# \"masquerade traffic for a/web external destinations\" -j KUBE-MARK-MASQ",
                  "-j KUBE-SVC-WEB"));
  EXPECT_THAT(rendered.shared(SharedChain::FilterExternal), IsEmpty());
  EXPECT_THAT(rendered.shared(SharedChain::FilterNodePorts), IsEmpty());
  EXPECT_THAT(rendered.shared(SharedChain::FilterFirewall), IsEmpty());
  EXPECT_EQ(rendered.chain("KUBE-FW-WEB").front(), "no such chain");
}

TEST(IptablesRules, CountPacketsToNodePortsOnLoopback) {
  const auto lines = [](bool possible, bool counted) {
    RuleOptions options;
    options.localhost_node_ports = possible;
    options.count_localhost = counted;
    return Rendered(node_port(), one(), options).shared(SharedChain::NatNodePorts);
  };
  const std::string all = "-p tcp # \"a/web\" -m tcp --dport 30080 -j KUBE-EXT-WEB";
  EXPECT_THAT(lines(true, true),
              ElementsAre("-d 127.0.0.0/8 -p tcp # \"a/web\" -m tcp --dport 30080 -m nfacct "
                          "--nfacct-name  localhost_nps_accepted_pkts -j KUBE-EXT-WEB",
                          all));
  EXPECT_THAT(lines(false, true), ElementsAre(all));
  EXPECT_THAT(lines(true, false), ElementsAre(all));
}

TEST(IptablesRules, OfPolicyLocalUseOnlyEndpointsOfTheNode) {
  const Rendered rendered(node_port().local_external(), two());
  EXPECT_THAT(
      rendered.chain("KUBE-EXT-WEB"),
      ElementsAre("# \"masquerade LOCAL traffic for a/web external destinations\" -m addrtype "
                  "--src-type LOCAL -j KUBE-MARK-MASQ",
                  "# \"route LOCAL traffic for a/web external destinations\" -m addrtype "
                  "--src-type LOCAL -j KUBE-SVC-WEB",
                  "-j KUBE-SVL-WEB"));
  EXPECT_THAT(rendered.chain("KUBE-SVL-WEB"),
              ElementsAre("# \"a/web -> 10.244.0.1:8080\" -j KUBE-SEP-10.244.0.1:8080"));
  EXPECT_THAT(rendered.shared(SharedChain::FilterExternal), IsEmpty());
}

TEST(IptablesRules, OfPolicyLocalDropWhatTheNodeHasNoEndpointFor) {
  const Rendered rendered(
      node_port().external_ip("198.51.100.1").load_balancer("203.0.113.1").local_external(),
      remote());
  EXPECT_THAT(
      rendered.shared(SharedChain::FilterExternal),
      ElementsAre(
          "-d 198.51.100.1/32 -p tcp # \"a/web has no local endpoints\" -m tcp --dport 80 -j DROP",
          "-d 203.0.113.1/32 -p tcp # \"a/web has no local endpoints\" -m tcp --dport 80 -j DROP",
          "-p tcp # \"a/web has no local endpoints\" -m addrtype --dst-type LOCAL -m tcp --dport "
          "30080 -j DROP"));
  EXPECT_THAT(
      rendered.chain("KUBE-EXT-WEB"),
      ElementsAre("# \"masquerade LOCAL traffic for a/web external destinations\" -m addrtype "
                  "--src-type LOCAL -j KUBE-MARK-MASQ",
                  "# \"route LOCAL traffic for a/web external destinations\" -m addrtype "
                  "--src-type LOCAL -j KUBE-SVC-WEB"));
  EXPECT_THAT(rendered.chains(),
              ElementsAre("KUBE-SEP-10.244.0.2:8080", "KUBE-SVC-WEB", "KUBE-EXT-WEB"));
}

TEST(IptablesRules, OfPolicyLocalLetPodsOfTheNodeReachEveryEndpoint) {
  const auto first = [](const LocalTraffic& local) {
    return Rendered(node_port().local_external(), two(), from(local)).chain("KUBE-EXT-WEB").front();
  };
  const std::string rest = "# \"pod traffic for a/web external destinations\" -j KUBE-SVC-WEB";
  EXPECT_EQ(first(kPods), "-s 10.244.0.0/24 " + rest);
  EXPECT_EQ(first(kBridge), "-i cni0 " + rest);
  EXPECT_EQ(first(kVeths), "-i veth+ " + rest);
}

TEST(IptablesRules, OfInternalPolicyLocalLeadToTheNodesOwn) {
  const Rendered rendered(web().local_internal(), two());
  EXPECT_THAT(
      rendered.shared(SharedChain::NatServices),
      ElementsAre(
          "-d 10.96.0.1/32 -p tcp # \"a/web cluster IP\" -m tcp --dport 80 -j KUBE-SVL-WEB"));
  EXPECT_THAT(rendered.chains(), ElementsAre("KUBE-SEP-10.244.0.1:8080", "KUBE-SVL-WEB"));
  EXPECT_THAT(
      Rendered(web().local_internal(), remote()).shared(SharedChain::FilterServices),
      ElementsAre("-d 10.96.0.1/32 -p tcp # \"a/web has no local endpoints\" -m tcp --dport "
                  "80 -j DROP"));
}

TEST(IptablesRules, HaveAHealthPortForPolicyLocal) {
  EXPECT_THAT(
      Rendered(balancer().local_external().health_check(30999), two())
          .shared(SharedChain::FilterNodePorts),
      ElementsAre("-p tcp # \"a/web health check node port\" -m tcp --dport 30999 -j ACCEPT"));
}

TEST(IptablesRules, LetSourceRangesInAndDropOthers) {
  const Rendered rendered(balancer().source_range("10.0.0.0/8").source_range("8.8.8.8/32"), one());
  EXPECT_THAT(
      rendered.shared(SharedChain::NatServices),
      testing::Contains(
          "-d 203.0.113.1/32 -p tcp # \"a/web loadbalancer IP\" -m tcp --dport 80 -j KUBE-FW-WEB"));
  EXPECT_THAT(
      rendered.shared(SharedChain::FilterFirewall),
      ElementsAre("-d 203.0.113.1/32 -p tcp # \"a/web traffic not accepted by KUBE-FW-WEB\" "
                  "-m tcp --dport 80 -j DROP"));
  EXPECT_THAT(rendered.chain("KUBE-FW-WEB"),
              ElementsAre("-s 10.0.0.0/8 # \"a/web loadbalancer IP\" -j KUBE-EXT-WEB",
                          "-s 8.8.8.8/32 # \"a/web loadbalancer IP\" -j KUBE-EXT-WEB",
                          "# \"other traffic to a/web will be dropped by KUBE-PROXY-FIREWALL\""));
}

TEST(IptablesRules, LetTheNodeInByTheAddressThatItTakesForItsOwn) {
  EXPECT_THAT(Rendered(balancer().source_range("172.31.0.0/24"), one()).chain("KUBE-FW-WEB"),
              ElementsAre("-s 172.31.0.0/24 # \"a/web loadbalancer IP\" -j KUBE-EXT-WEB",
                          "-s 203.0.113.1/32 # \"a/web loadbalancer IP\" -j KUBE-EXT-WEB",
                          "# \"other traffic to a/web will be dropped by KUBE-PROXY-FIREWALL\""));
}

TEST(IptablesRules, OfSessionAffinityRememberTheClient) {
  const Rendered rendered(web().affinity(600), two());
  EXPECT_THAT(rendered.chain("KUBE-SVC-WEB"),
              ElementsAre("# \"a/web -> 10.244.0.1:8080\" -m recent --rcheck --seconds 600 --reap "
                          "--name KUBE-SEP-10.244.0.1:8080 --mask 255.255.255.255 --rsource -j "
                          "KUBE-SEP-10.244.0.1:8080",
                          "# \"a/web -> 10.244.0.2:8080\" -m recent --rcheck --seconds 600 --reap "
                          "--name KUBE-SEP-10.244.0.2:8080 --mask 255.255.255.255 --rsource -j "
                          "KUBE-SEP-10.244.0.2:8080",
                          "# \"a/web -> 10.244.0.1:8080\" -m statistic --mode random --probability "
                          "0.50000000000 -j KUBE-SEP-10.244.0.1:8080",
                          "# \"a/web -> 10.244.0.2:8080\" -j KUBE-SEP-10.244.0.2:8080"));
  EXPECT_EQ(rendered.chain("KUBE-SEP-10.244.0.1:8080").back(),
            "-p tcp # \"a/web\" -m recent --set --name KUBE-SEP-10.244.0.1:8080 --mask "
            "255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.244.0.1:8080");
}

TEST(IptablesRules, OfSessionAffinityCompareTheWholeAddress) {
  RuleOptions v6 = plain();
  v6.family = Family::V6;
  const auto object = service("a/web").cluster_ip("fd00:96::1").port("", 80).affinity(600);
  const auto list = slice("a/web", "s", Family::V6).port("", 8080).ready("fd00::1");
  EXPECT_EQ(Rendered(object, list, v6).chain("KUBE-SEP-[fd00::1]:8080").back(),
            "-p tcp # \"a/web\" -m recent --set --name KUBE-SEP-[fd00::1]:8080 --mask "
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff --rsource -m tcp -j DNAT --to-destination "
            "[fd00::1]:8080");
}

TEST(IptablesRules, MasqueradeWhatDoesNotComeFromAPodOfTheNode) {
  const auto first = [](const RuleOptions& options) {
    return Rendered(web(), one(), options).chain("KUBE-SVC-WEB").front();
  };
  const std::string rest = "-p tcp # \"a/web cluster IP\" -m tcp --dport 80 -j KUBE-MARK-MASQ";
  EXPECT_EQ(first(from(kPods)), "! -s 10.244.0.0/24 -d 10.96.0.1/32 " + rest);
  EXPECT_EQ(first(from(kBridge)), "-d 10.96.0.1/32 ! -i cni0 " + rest);
  EXPECT_EQ(first(from(kVeths)), "-d 10.96.0.1/32 ! -i veth+ " + rest);
  RuleOptions all = plain();
  all.masquerade_all = true;
  EXPECT_EQ(first(all), "-d 10.96.0.1/32 " + rest);
  for (const LocalTraffic& local : {kPods, kBridge}) {
    all.local_traffic = local;
    EXPECT_EQ(first(all), "-d 10.96.0.1/32 " + rest);
  }
}

TEST(IptablesRules, MasqueradeForTheClusterIpWhereItLeads) {
  const auto masquerades = [](const service& object, std::string_view chain) {
    return Rendered(object, one(), from(kPods)).chain(chain).front().starts_with("! -s ");
  };
  EXPECT_TRUE(masquerades(node_port().local_external(), "KUBE-SVC-WEB"));
  EXPECT_FALSE(masquerades(node_port().local_external(), "KUBE-SVL-WEB"));
  EXPECT_FALSE(masquerades(node_port().local_internal(), "KUBE-SVC-WEB"));
  EXPECT_TRUE(masquerades(node_port().local_internal(), "KUBE-SVL-WEB"));
}

TEST(IptablesRules, DoNotDependOnWhatWasRenderedBefore) {
  const auto plan = plan::compile_service(build::entry(node_port(), two()), here());
  ServiceRules fresh;
  render_service(plan, plain(), false, fresh);
  ServiceRules used = fresh;
  render_service(plan, plain(), false, used);
  EXPECT_EQ(used.text, fresh.text);
  EXPECT_EQ(used.shared, fresh.shared);
  EXPECT_EQ(used.chains.size(), fresh.chains.size());
}

TEST(RuleDigest, IsOfTheLinesInTheirOrder) {
  EXPECT_EQ(digest_of("-A X\n-A Y\n"), digest_of("-A X\n-A Y\n"));
  EXPECT_NE(digest_of("-A X\n-A Y\n"), digest_of("-A Y\n-A X\n"));
  EXPECT_NE(digest_of("-A X\n-A Y\n"), digest_of("-A X\n"));
  RuleDigest digest;
  digest.add_line("-A X");
  digest.add_line("-A Y");
  EXPECT_EQ(digest.value(), digest_of("-A X\n-A Y\n"));
}

}  // namespace
}  // namespace iptables
