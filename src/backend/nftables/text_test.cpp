#include "backend/nftables/text.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/builders.h"

namespace nftables {
namespace {

using build::cidr;
using build::ip;
using net::Family;
using net::Protocol;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string v4(Statement statement) { return rule_text({{std::move(statement)}}, Family::V4); }
std::string v6(Statement statement) { return rule_text({{std::move(statement)}}, Family::V6); }

const Key kFront{Field::DestinationAddress, Field::Protocol, Field::DestinationPort};

Key front_and(std::variant<Field, Draw> last) {
  Key key = kFront;
  key.push_back(last);
  return key;
}

TEST(RuleText, ConnectionTracking) {
  EXPECT_EQ(v4(New{}), "ct state new");
  EXPECT_EQ(v4(Translated{}), "ct status dnat");
}

TEST(RuleText, AddressesInABlock) {
  EXPECT_EQ(v4(Within{Field::SourceAddress, cidr("10.244.0.0/16")}), "ip saddr 10.244.0.0/16");
  EXPECT_EQ(v4(Within{Field::DestinationAddress, cidr("127.0.0.0/8"), true}),
            "ip daddr != 127.0.0.0/8");
  EXPECT_EQ(v4(Within{Field::SourceAddress, cidr("0.0.0.0/0")}), "ip saddr 0.0.0.0/0");
  EXPECT_EQ(v6(Within{Field::SourceAddress, cidr("fd00:244::/63")}), "ip6 saddr fd00:244::/63");
}

TEST(RuleText, ABlockOfOneAddressIsThatAddress) {
  EXPECT_EQ(v4(Within{Field::SourceAddress, cidr("10.1.2.3/32"), true}), "ip saddr != 10.1.2.3");
  EXPECT_EQ(v6(Within{Field::DestinationAddress, cidr("::1/128"), true}), "ip6 daddr != ::1");
}

TEST(RuleText, AddressesAreThoseOfTheCLibrary) {
  EXPECT_EQ(v6(Within{Field::SourceAddress, cidr("::102:304/128")}), "ip6 saddr ::1.2.3.4");
}

TEST(RuleText, Interfaces) {
  EXPECT_EQ(v4(Enters{"eth0"}), "iifname \"eth0\"");
  EXPECT_EQ(v4(Enters{"lo", false, true}), "iifname != \"lo\"");
  EXPECT_EQ(v4(Enters{"veth", true}), "iifname \"veth*\"");
  EXPECT_EQ(v4(Enters{"veth", true, true}), "iifname != \"veth*\"");
  EXPECT_EQ(v4(Enters{"odd*"}), "iifname \"odd\\*\"") << "its whole name";
}

TEST(RuleText, AddressesOfTheNodeItself) {
  EXPECT_EQ(v4(IsLocal{Field::SourceAddress}), "fib saddr type local");
  EXPECT_EQ(v6(IsLocal{Field::DestinationAddress}), "fib daddr type local");
}

TEST(RuleText, MarksHaveEightDigits) {
  EXPECT_EQ(v4(Marked{0x4000}), "meta mark & 0x00004000 != 0x00000000");
  EXPECT_EQ(v4(Mark{0x80000000}), "meta mark set meta mark | 0x80000000");
  EXPECT_EQ(v4(Mark{0x80, true}), "meta mark set meta mark ^ 0x00000080");
}

TEST(RuleText, SetsAndVerdictMaps) {
  EXPECT_EQ(v4(Member{{Field::DestinationAddress}, SetId::ClusterIps}), "ip daddr @cluster-ips");
  EXPECT_EQ(v6(Member{{Field::OriginalAddress}, SetId::NodePortIps}),
            "ct original ip6 daddr @nodeport-ips");
  EXPECT_EQ(v4(Member{front_and(Field::SourceAddress), SetId::AllowedSources}),
            "ip daddr . meta l4proto . th dport . ip saddr @allowed-sources");
  EXPECT_EQ(v6(Dispatch{kFront, SetId::ServiceIps}),
            "ip6 daddr . meta l4proto . th dport vmap @service-ips");
  EXPECT_EQ(v4(Dispatch{{Field::OriginalAddress, Field::Protocol, Field::OriginalPort},
                        SetId::StickyServices}),
            "ct original ip daddr . meta l4proto . ct original proto-dst vmap @sticky-services");
}

TEST(RuleText, Verdicts) {
  EXPECT_EQ(v4(Verdict{Verdict::Kind::Drop, {}}), "drop");
  EXPECT_EQ(v4(Verdict{Verdict::Kind::Return, {}}), "return");
  EXPECT_EQ(v4(Verdict{Verdict::Kind::Jump, "services"}), "jump services");
  EXPECT_EQ(v4(Verdict{Verdict::Kind::Goto, "endpoints/3"}), "goto endpoints/3");
  EXPECT_EQ(v4(Reject{}), "reject");
  EXPECT_EQ(v4(Masquerade{}), "masquerade fully-random");
}

TEST(RuleText, AnEndpointIsDrawnFromAMap) {
  EXPECT_EQ(v4(Translate{front_and(Draw{3}), SetId::Endpoints}),
            "dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 3 map @endpoints");
  EXPECT_EQ(v6(Translate{front_and(Draw{1, kLocalList}), SetId::Endpoints}),
            "dnat ip6 to ip6 daddr . meta l4proto . th dport . numgen random mod 1 offset 1048576 "
            "map @endpoints");
  EXPECT_EQ(v4(Translate{front_and(Field::SourceAddress), SetId::Affinity}),
            "dnat ip to ip daddr . meta l4proto . th dport . ip saddr map @affinity");
}

std::string remembered_for(uint32_t seconds) {
  const std::string text = v4(Remember{SetId::Affinity,
                                       {Field::OriginalAddress},
                                       {Field::DestinationAddress, Field::DestinationPort},
                                       std::chrono::seconds(seconds)});
  const std::string before = "update @affinity { ct original ip daddr timeout ";
  const std::string behind = " : ip daddr . th dport }";
  EXPECT_THAT(text, StartsWith(before));
  EXPECT_THAT(text, testing::EndsWith(behind));
  return text.substr(before.size(), text.size() - before.size() - behind.size());
}

TEST(RuleText, TimeIsToldInTheLargestUnits) {
  EXPECT_EQ(remembered_for(1), "1s");
  EXPECT_EQ(remembered_for(60), "1m");
  EXPECT_EQ(remembered_for(90), "1m30s");
  EXPECT_EQ(remembered_for(3601), "1h1s");
  EXPECT_EQ(remembered_for(5400), "1h30m");
  EXPECT_EQ(remembered_for(10800), "3h");
  EXPECT_EQ(remembered_for(86400), "1d");
  EXPECT_EQ(remembered_for(90061), "1d1h1m1s");
}

TEST(RuleText, StatementsStandInARowWithTheCommentBehindThem) {
  const Rule rule{{Member{{Field::DestinationAddress}, SetId::ClusterIps},
                   Within{Field::SourceAddress, cidr("10.244.0.0/16"), true}, Mark{0x4000}},
                  "masquerade clusterIP traffic from outside cluster"};
  EXPECT_EQ(rule_text(rule, Family::V4),
            "ip daddr @cluster-ips ip saddr != 10.244.0.0/16 meta mark set meta mark | 0x00004000 "
            "comment \"masquerade clusterIP traffic from outside cluster\"");
}

// Elements.

void put(Bytes& bytes, const char* address) { bytes.put(ip(address)); }
void put(Bytes& bytes, Protocol protocol) { bytes.put(protocol); }
void put(Bytes& bytes, int port) { bytes.put_port(static_cast<uint16_t>(port)); }
void put(Bytes& bytes, uint32_t mark) { bytes.put_mark(mark); }

// Numbers are ports; unsigned ones are marks.
template <typename... Field>
Bytes bytes(Field... fields) {
  Bytes made;
  (put(made, fields), ...);
  return made;
}

Element element(SetId set, Bytes key) { return {.set = set, .key = key}; }
Element range(SetId set, Bytes first, Bytes last) {
  Element made = element(set, first);
  made.key_end = last;
  return made;
}
Element verdict(SetId set, Bytes key, Target target, std::string_view comment = {}) {
  Element made = element(set, key);
  made.target = target;
  made.comment = comment;
  return made;
}
Element value(SetId set, Bytes key, Bytes endpoint) {
  Element made = element(set, key);
  made.value = endpoint;
  return made;
}

const Target kDrop{};
Target to_endpoints(uint32_t count) {
  return {.kind = Target::Kind::Class, .front = {.endpoints = count}};
}

TEST(ElementText, Addresses) {
  EXPECT_EQ(element_text(element(SetId::ClusterIps, bytes("10.96.0.1")), Family::V4), "10.96.0.1");
  EXPECT_EQ(element_text(element(SetId::ClusterIps, bytes("fd00:10:96::1")), Family::V6),
            "fd00:10:96::1");
}

TEST(ElementText, Concatenations) {
  EXPECT_EQ(element_text(element(SetId::HairpinConnections,
                                 bytes("10.244.1.2", "10.244.1.2", Protocol::Sctp, 8080)),
                         Family::V4),
            "10.244.1.2 . 10.244.1.2 . sctp . 8080");
  EXPECT_EQ(element_text(element(SetId::HairpinConnections,
                                 bytes("fd00::2", "fd00::2", Protocol::Udp, 65535)),
                         Family::V6),
            "fd00::2 . fd00::2 . udp . 65535");
}

TEST(ElementText, Verdicts) {
  const Bytes key = bytes("10.96.0.1", Protocol::Tcp, 80);
  const auto text = [&](Target target) {
    return element_text(verdict(SetId::ServiceIps, key, target), Family::V4);
  };
  EXPECT_EQ(text(kDrop), "10.96.0.1 . tcp . 80 : drop");
  EXPECT_EQ(text({.kind = Target::Kind::Reject}), "10.96.0.1 . tcp . 80 : goto reject-chain");
  EXPECT_EQ(text({.kind = Target::Kind::CheckSources}),
            "10.96.0.1 . tcp . 80 : goto source-ranges");
  EXPECT_EQ(text(to_endpoints(3)), "10.96.0.1 . tcp . 80 : goto endpoints/3");
  EXPECT_EQ(text({.kind = Target::Kind::Remember, .timeout_s = 10800}),
            "10.96.0.1 . tcp . 80 : goto remember-10800");
}

TEST(ElementText, TheCommentStandsBehindTheKey) {
  EXPECT_EQ(element_text(verdict(SetId::ServiceNodePorts, bytes(Protocol::Udp, 30053), kDrop,
                                 "kube-system/dns:dns"),
                         Family::V4),
            "udp . 30053 comment \"kube-system/dns:dns\" : drop");
}

TEST(ElementText, EndpointsAreNumberedByMarks) {
  EXPECT_EQ(
      element_text(value(SetId::Endpoints, bytes("10.96.0.1", Protocol::Tcp, 80, kLocalList + 2),
                         bytes("10.244.1.2", 8080)),
                   Family::V4),
      "10.96.0.1 . tcp . 80 . 0x00100002 : 10.244.1.2 . 8080");
  EXPECT_EQ(element_text(value(SetId::NodePortEndpoints, bytes(Protocol::Tcp, 30080, 0U),
                               bytes("fd00::2", 8080)),
                         Family::V6),
            "tcp . 30080 . 0x00000000 : fd00::2 . 8080");
}

TEST(ElementText, Blocks) {
  const auto text = [](const char* first, const char* last, Family family) {
    return element_text(range(SetId::ServiceCidrs, bytes(first), bytes(last)), family);
  };
  EXPECT_EQ(text("10.96.0.0", "10.111.255.255", Family::V4), "10.96.0.0/12");
  EXPECT_EQ(text("10.96.0.0", "10.96.0.0", Family::V4), "10.96.0.0");
  EXPECT_EQ(text("0.0.0.0", "255.255.255.255", Family::V4), "0.0.0.0/0");
  EXPECT_EQ(text("fd00:10:96::", "fd00:10:96::f:ffff", Family::V6), "fd00:10:96::/108");
}

TEST(ElementText, BlocksAtTheEndOfAConcatenation) {
  const auto text = [](const char* first, const char* last) {
    return element_text(range(SetId::AllowedSources, bytes("5.6.7.8", Protocol::Tcp, 80, first),
                              bytes("5.6.7.8", Protocol::Tcp, 80, last)),
                        Family::V4);
  };
  EXPECT_EQ(text("203.0.113.0", "203.0.113.127"), "5.6.7.8 . tcp . 80 . 203.0.113.0/25");
  EXPECT_EQ(text("9.9.9.9", "9.9.9.9"), "5.6.7.8 . tcp . 80 . 9.9.9.9");
  EXPECT_EQ(text("0.0.0.0", "255.255.255.255"), "5.6.7.8 . tcp . 80 . 0.0.0.0/0");
}

// The table.

// "set x {" up to its closing bracket.
std::string section(const std::string& table, const std::string& head) {
  const size_t begin = table.find("\t" + head + " {\n");
  if (begin == std::string::npos) return "";
  return table.substr(begin, table.find("\t}\n", begin) + 3 - begin);
}

std::string listed(const std::string& head, std::vector<Element> elements,
                   Family family = Family::V4) {
  Listing listing;
  listing.options.family = family;
  listing.elements = std::move(elements);
  listing.capacity = {4096, 4096};
  return section(list_table(listing), head);
}

TEST(ListTable, BeginsWithItsComment) {
  Listing listing;
  EXPECT_THAT(list_table(listing),
              StartsWith("table ip kube-proxy {\n\tcomment \"rules for kube-proxy\"\n\tset "));
  listing.options.family = Family::V6;
  EXPECT_THAT(list_table(listing), StartsWith("table ip6 kube-proxy {\n"));
}

TEST(ListTable, SetsAndChainsArePartedByBlankLines) {
  const std::string table = list_table({});
  EXPECT_THAT(table, HasSubstr("\t}\n\n\tchain filter-input {\n"));
  EXPECT_THAT(table, testing::EndsWith("\t}\n}\n"));
  EXPECT_THAT(table, Not(HasSubstr("\n\n\n")));
}

TEST(ListTable, TwoIpv4AddressesStandInALine) {
  EXPECT_EQ(listed("set cluster-ips", {element(SetId::ClusterIps, bytes("192.168.0.2")),
                                       element(SetId::ClusterIps, bytes("10.0.1.0")),
                                       element(SetId::ClusterIps, bytes("10.0.0.200"))}),
            "\tset cluster-ips {\n"
            "\t\ttype ipv4_addr\n"
            "\t\tcomment \"Active ClusterIPs\"\n"
            "\t\telements = { 10.0.0.200, 10.0.1.0,\n"
            "\t\t\t     192.168.0.2 }\n"
            "\t}\n");
}

TEST(ListTable, OneIpv6AddressStandsInALine) {
  EXPECT_EQ(listed("set cluster-ips",
                   {element(SetId::ClusterIps, bytes("fd00:10:96::2")),
                    element(SetId::ClusterIps, bytes("fd00:10:96::1"))},
                   Family::V6),
            "\tset cluster-ips {\n"
            "\t\ttype ipv6_addr\n"
            "\t\tcomment \"Active ClusterIPs\"\n"
            "\t\telements = { fd00:10:96::1,\n"
            "\t\t\t     fd00:10:96::2 }\n"
            "\t}\n");
}

TEST(ListTable, WhatSeveralServicesNeedStandsThereOnce) {
  const Element shared = element(SetId::ClusterIps, bytes("10.96.0.1"));
  EXPECT_THAT(listed("set cluster-ips", {shared, shared}), HasSubstr("elements = { 10.96.0.1 }"));
}

TEST(ListTable, AnEmptySetHasNoElements) {
  EXPECT_EQ(listed("map firewall-ips", {}),
            "\tmap firewall-ips {\n"
            "\t\ttype ipv4_addr . inet_proto . inet_service : verdict\n"
            "\t\tcomment \"destinations that are subject to LoadBalancerSourceRanges\"\n"
            "\t}\n");
}

TEST(ListTable, ConcatenationsAreSortedFromTheirLastByteOn) {
  const auto endpoint = [](const char* address, Protocol protocol, int port, uint32_t number) {
    return value(SetId::Endpoints, bytes(address, protocol, port, number), bytes("10.0.0.2", 80));
  };
  EXPECT_EQ(listed("map endpoints",
                   {
                       endpoint("10.96.0.1", Protocol::Tcp, 80, 0x10000),
                       endpoint("10.96.0.1", Protocol::Udp, 53, 2),
                       endpoint("10.96.0.2", Protocol::Udp, 256, 2),
                       endpoint("11.96.0.1", Protocol::Udp, 256, 2),
                       endpoint("10.96.0.1", Protocol::Udp, 256, 2),
                       endpoint("10.96.0.1", Protocol::Tcp, 256, 2),
                       endpoint("9.96.0.1", Protocol::Sctp, 80, 1),
                   }),
            "\tmap endpoints {\n"
            "\t\ttype ipv4_addr . inet_proto . inet_service . mark : ipv4_addr . inet_service\n"
            "\t\tsize 4096\n"
            "\t\tcomment \"service address, protocol, port, number of the endpoint : endpoint\"\n"
            "\t\telements = { 9.96.0.1 . sctp . 80 . 0x00000001 : 10.0.0.2 . 80,\n"
            "\t\t\t     10.96.0.1 . tcp . 256 . 0x00000002 : 10.0.0.2 . 80,\n"
            "\t\t\t     10.96.0.1 . udp . 256 . 0x00000002 : 10.0.0.2 . 80,\n"
            "\t\t\t     11.96.0.1 . udp . 256 . 0x00000002 : 10.0.0.2 . 80,\n"
            "\t\t\t     10.96.0.2 . udp . 256 . 0x00000002 : 10.0.0.2 . 80,\n"
            "\t\t\t     10.96.0.1 . udp . 53 . 0x00000002 : 10.0.0.2 . 80,\n"
            "\t\t\t     10.96.0.1 . tcp . 80 . 0x00010000 : 10.0.0.2 . 80 }\n"
            "\t}\n");
}

TEST(ListTable, RangesOfConcatenationsStandAsTheKernelGotThem) {
  const auto allowed = [](int port, const char* source) {
    const Bytes key = bytes("5.6.7.8", Protocol::Tcp, port, source);
    return range(SetId::AllowedSources, key, key);
  };
  EXPECT_EQ(listed("set allowed-sources",
                   {allowed(256, "9.9.9.9"), allowed(256, "1.1.1.1"), allowed(80, "10.0.0.10")}),
            "\tset allowed-sources {\n"
            "\t\ttype ipv4_addr . inet_proto . inet_service . ipv4_addr\n"
            "\t\tflags interval\n"
            "\t\tcomment \"LoadBalancerSourceRanges of the destinations in firewall-ips\"\n"
            "\t\telements = { 5.6.7.8 . tcp . 256 . 9.9.9.9,\n"
            "\t\t\t     5.6.7.8 . tcp . 256 . 1.1.1.1,\n"
            "\t\t\t     5.6.7.8 . tcp . 80 . 10.0.0.10 }\n"
            "\t}\n");
}

TEST(ListTable, AffinityTimesOut) {
  EXPECT_EQ(listed("map affinity", {}, Family::V6),
            "\tmap affinity {\n"
            "\t\ttype ipv6_addr . inet_proto . inet_service . ipv6_addr : ipv6_addr . "
            "inet_service\n"
            "\t\tsize 1048576\n"
            "\t\tflags dynamic,timeout\n"
            "\t\tcomment \"service address, protocol, port, client : endpoint\"\n"
            "\t}\n");
}

TEST(ListTable, TheFingerprintIsFourMarks) {
  EXPECT_THAT(
      listed("set fingerprint", {element(SetId::Fingerprint, bytes(1U, 2U, 3U, 0xffffffffU))}),
      HasSubstr("\t\telements = { 0x00000001 . 0x00000002 . 0x00000003 . 0xffffffff }\n"));
}

TEST(ListTable, AddressesOfNodePortsAreListedUnlessTheyAreAll) {
  Listing listing;
  EXPECT_THAT(list_table(listing), HasSubstr("\tset nodeport-ips {\n"));
  listing.options.node_ports_everywhere = true;
  EXPECT_THAT(list_table(listing), Not(HasSubstr("nodeport-ips")));
}

TEST(ListTable, PrioritiesHaveTheNameOfOneNearby) {
  const std::string table = list_table({});
  const auto hook = [&](const std::string& chain) {
    const std::string text = section(table, "chain " + chain);
    const size_t begin = text.find("\t\ttype ") + 2;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_EQ(hook("filter-prerouting-pre-dnat"),
            "type filter hook prerouting priority dstnat - 10; policy accept;");
  EXPECT_EQ(hook("filter-output-pre-dnat"),
            "type filter hook output priority -110; policy accept;");
  EXPECT_EQ(hook("filter-forward"), "type filter hook forward priority filter; policy accept;");
  EXPECT_EQ(hook("nat-prerouting"), "type nat hook prerouting priority dstnat; policy accept;");
  EXPECT_EQ(hook("nat-output"), "type nat hook output priority -100; policy accept;");
  EXPECT_EQ(hook("nat-postrouting"), "type nat hook postrouting priority srcnat; policy accept;");
}

TEST(ListTable, AChainHasItsCommentThenItsRules) {
  EXPECT_EQ(section(list_table({}), "chain reject-chain"),
            "\tchain reject-chain {\n"
            "\t\tcomment \"helper for @no-endpoint-services / @no-endpoint-nodeports\"\n"
            "\t\treject\n"
            "\t}\n");
}

TEST(ListTable, ChainsOnDemandComeLastByTarget) {
  Listing listing;
  listing.targets = {
      {.kind = Target::Kind::Remember, .timeout_s = 60}, to_endpoints(10), to_endpoints(9)};
  const std::string table = list_table(listing);
  const size_t last_static = table.find("\tchain remember {");
  const size_t nine = table.find("\tchain endpoints/9 {");
  const size_t ten = table.find("\tchain endpoints/10 {");
  const size_t remember = table.find("\tchain remember-60 {");
  ASSERT_NE(remember, std::string::npos);
  EXPECT_LT(last_static, nine);
  EXPECT_LT(nine, ten);
  EXPECT_LT(ten, remember);
}

TEST(ListTable, TheOrderInWhichThingsAreGivenDoesNotMatter) {
  Listing listing;
  listing.targets = {to_endpoints(2), to_endpoints(1)};
  listing.elements = {
      verdict(SetId::ServiceIps, bytes("10.96.0.2", Protocol::Tcp, 80), to_endpoints(2), "a/b"),
      verdict(SetId::ServiceIps, bytes("10.96.0.1", Protocol::Tcp, 80), to_endpoints(1), "a/c"),
      element(SetId::ClusterIps, bytes("10.96.0.2")),
      element(SetId::ClusterIps, bytes("10.96.0.1"))};
  const std::string table = list_table(listing);
  std::ranges::reverse(listing.targets);
  std::ranges::reverse(listing.elements);
  EXPECT_EQ(list_table(listing), table);
}

}  // namespace
}  // namespace nftables
