#include "source/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "source/test_decode.h"

namespace source {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string slice_text(const std::string& fields,
                       const std::string& labels = "kubernetes.io/service-name: web") {
  return "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-a, labels: "
         "{" +
         labels + "}}, " + fields + "}";
}

model::EndpointSlice slice(const std::string& fields) {
  const auto decoded = decode_text(slice_text(fields));
  EXPECT_THAT(problems(decoded), IsEmpty());
  const auto* found = only<model::EndpointSlice>(decoded);
  return found == nullptr ? model::EndpointSlice{} : *found;
}

TEST(DecodeMetadata, ChecksNames) {
  const auto named = [](const std::string& metadata) {
    return problems_of("{apiVersion: v1, kind: Service, metadata: {" + metadata + "}}");
  };
  EXPECT_THAT(named("name: a-1"), IsEmpty());
  EXPECT_THAT(named("name: " + std::string(63, 'a')), IsEmpty());
  EXPECT_THAT(named("namespace: ''\n, name: a"), IsEmpty());
  EXPECT_THAT(named(""), ElementsAre("1: metadata.name: is missing"));
  EXPECT_THAT(named("name: 5"), ElementsAre("1: metadata.name: expected a string, got number"));
  for (const auto* bad : {"A", "a.b", "-a", "a-", "a b", "'a\"; drop'", "'a\\n'", "a_b", "''"}) {
    EXPECT_THAT(named(std::string("name: ") + bad),
                ElementsAre(HasSubstr("metadata.name: must be a DNS label")))
        << bad;
  }
  EXPECT_THAT(named("name: " + std::string(64, 'a')), ElementsAre(HasSubstr("at most 63")));
  EXPECT_THAT(named("name: a, namespace: a.b"),
              ElementsAre(HasSubstr("metadata.namespace: must be a DNS label")));
  EXPECT_THAT(problems_of("{apiVersion: v1, kind: Node, metadata: {name: a.b-c.d}}"), IsEmpty());
  EXPECT_THAT(problems_of("{apiVersion: v1, kind: Node, metadata: {name: a..b}}"),
              ElementsAre(HasSubstr("must be a DNS name")));
}

TEST(DecodeSlice, ReadsEndpointsPortsAndHints) {
  const auto got = slice(
      "addressType: IPv4, ports: [{name: http, port: 80}, {port: 53, protocol: UDP}], endpoints: ["
      "{addresses: [10.1.0.1, 10.1.0.9], nodeName: n1, conditions: {ready: false, serving: true, "
      "terminating: true}, hints: {forZones: [{name: Zone_A}], forNodes: [{name: n1}]}},"
      "{addresses: [10.1.0.2], nodeName: n1}, {addresses: [10.1.0.3]}]");
  EXPECT_EQ(got.service.str(), "default/web");
  EXPECT_EQ(got.name, "web-a");
  EXPECT_EQ(got.ports, (std::vector<model::EndpointPort>{{"http", net::Protocol::Tcp, 80},
                                                         {"", net::Protocol::Udp, 53}}));
  ASSERT_EQ(got.endpoints.size(), 3u);
  EXPECT_EQ(got.endpoints[0].ip, ip("10.1.0.1"));
  EXPECT_FALSE(got.endpoints[0].ready);
  EXPECT_TRUE(got.endpoints[0].serving);
  EXPECT_TRUE(got.endpoints[0].terminating);
  EXPECT_EQ(got.view(got.endpoints[1].node), "n1");
  EXPECT_TRUE(got.endpoints[1].ready);
  EXPECT_FALSE(got.endpoints[1].terminating);
  EXPECT_EQ(got.view(got.endpoints[2].node), "");
  ASSERT_EQ(got.hints.size(), 2u);
  EXPECT_EQ(got.view(got.hints[0].name), "Zone_A");
  EXPECT_EQ(got.hints[1].kind, model::Hint::Kind::Node);
  EXPECT_EQ(got.text, "n1Zone_A");
}

TEST(DecodeSlice, SaysWhenTheChangeHappened) {
  const auto triggered = [](const std::string& annotation) {
    const auto decoded = decode_text(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n"
        "metadata:\n  name: web-1\n  labels: {kubernetes.io/service-name: web}\n"
        "  annotations: {endpoints.kubernetes.io/last-change-trigger-time: \"" +
        annotation + "\"}\n");
    EXPECT_TRUE(decoded.problems.empty());
    return only<model::EndpointSlice>(decoded)->trigger_time.time_since_epoch();
  };
  EXPECT_EQ(triggered("2026-11-15T20:43:16.939599673Z").count(), 1794775396939599673);
  EXPECT_EQ(triggered("2026-11-15T21:43:16+01:00").count(), 1794775396000000000);
  EXPECT_EQ(triggered("soon").count(), 0);
}

TEST(DecodeSlice, UnsetConditionsFollowKubeProxy) {
  const auto got = slice(
      "addressType: IPv4, endpoints: [{addresses: [10.1.0.1], conditions: "
      "{ready: null, serving: ~}}, {addresses: [10.1.0.2], conditions: "
      "{ready: false}}]");
  EXPECT_TRUE(got.endpoints[0].ready);
  EXPECT_TRUE(got.endpoints[0].serving);
  EXPECT_FALSE(got.endpoints[1].ready);
  EXPECT_TRUE(got.endpoints[1].serving);
}

TEST(DecodeSlice, LeavesOutWhatKubeProxyIgnores) {
  const auto decoded = decode_text(
      slice_text("addressType: IPv4, ports: [{name: a}, {name: b, port: 0}, {name: c, port: 1}],"
                 "endpoints: [{addresses: []}, {nodeName: n}, {addresses: [10.1.0.1]}]"));
  EXPECT_THAT(problems(decoded),
              ElementsAre("warning 1: ports[0].port: Ignoring invalid endpoint port",
                          "warning 1: ports[1].port: Ignoring invalid endpoint port",
                          "warning 1: endpoints[0].addresses: Ignoring invalid endpoint port with "
                          "empty address",
                          "warning 1: endpoints[1].addresses: Ignoring invalid endpoint port with "
                          "empty address"));
  EXPECT_EQ(only<model::EndpointSlice>(decoded)->ports.size(), 1u);
  EXPECT_EQ(only<model::EndpointSlice>(decoded)->endpoints.size(), 1u);
}

TEST(DecodeSlice, WithoutServiceNameItIsIgnoredWithAWarning) {
  for (const auto* labels : {"", "kubernetes.io/service-name: ''"}) {
    const auto decoded = decode_text(slice_text("addressType: IPv4", labels));
    EXPECT_THAT(problems(decoded),
                ElementsAre("warning 1: metadata: no kubernetes.io/service-name label set on "
                            "endpoint slice: web-a"));
    EXPECT_TRUE(decoded.objects.empty());
  }
}

TEST(DecodeSlice, HeadlessAndFqdnSlicesAreIgnored) {
  auto decoded = decode_text(slice_text(
      "addressType: IPv4", "kubernetes.io/service-name: web, service.kubernetes.io/headless: ''"));
  EXPECT_THAT(problems(decoded), IsEmpty());
  EXPECT_TRUE(decoded.objects.empty());
  decoded = decode_text(slice_text("addressType: FQDN, endpoints: [{addresses: [a.example]}]"));
  EXPECT_THAT(
      problems(decoded),
      ElementsAre("warning 1: addressType: EndpointSlice address type not supported: FQDN"));
  EXPECT_TRUE(decoded.objects.empty());
}

TEST(DecodeSlice, RejectsWhatTheApiServerRejects) {
  const auto rejects = [](const std::string& fields, const std::string& message) {
    const auto decoded = decode_text(slice_text(fields));
    EXPECT_THAT(problems(decoded), testing::Contains(HasSubstr(message))) << fields;
    EXPECT_TRUE(decoded.objects.empty());
  };
  rejects("endpoints: []", "addressType: is missing");
  rejects("addressType: ipv4", "addressType: must be one of IPv4, IPv6, FQDN");
  rejects("addressType: IPv4, endpoints: [{addresses: ['fd00::1']}]",
          "endpoints[0].addresses[0]: must be an IPv4 address, got fd00::1");
  rejects("addressType: IPv6, endpoints: [{addresses: ['::ffff:1.2.3.4']}]",
          "endpoints[0].addresses[0]: must be an IPv6 address, got 1.2.3.4");
  rejects("addressType: IPv4, endpoints: [{addresses: [x]}]", "must be an IP address, got \"x\"");
  rejects("addressType: IPv4, endpoints: [{addresses: [10.0.0.1], nodeName: 'A B'}]",
          "endpoints[0].nodeName: must be a DNS name");
  rejects("addressType: IPv4, endpoints: [{addresses: [10.0.0.1], conditions: {ready: 'no'}}]",
          "endpoints[0].conditions.ready: expected a bool, got string");
  rejects("addressType: IPv4, ports: [{port: 65536}]",
          "ports[0].port: must be between 0 and 65535");
}

TEST(DecodeSlice, HoldsAThousandEndpointsAndNotOneMore) {
  const auto with = [](int count) {
    std::string text = "addressType: IPv4, endpoints: [";
    for (int i = 0; i < count; ++i) {
      text += "{addresses: [10.1." + std::to_string(i / 250) + "." + std::to_string(i % 250) +
              "], nodeName: node-" + std::to_string(i) + "},";
    }
    return slice_text(text + "]");
  };
  const auto decoded = decode_text(with(1000));
  EXPECT_THAT(problems(decoded), IsEmpty());
  EXPECT_EQ(only<model::EndpointSlice>(decoded)->endpoints.size(), 1000u);
  EXPECT_THAT(problems_of(with(1001)),
              ElementsAre("1: endpoints: must have at most 1000 items, got 1001"));
}

TEST(DecodeEndpoints, BecomesOneSliceForEachSubsetAndFamily) {
  const auto decoded = decode_text(R"(
apiVersion: v1
kind: Endpoints
metadata: {name: web, namespace: prod}
subsets:
- addresses: [{ip: 10.1.0.1, nodeName: n1}, {ip: "fd00::1"}]
  notReadyAddresses: [{ip: 10.1.0.2}]
  ports: [{name: http, port: 80}]
- addresses: [{ip: 10.1.0.3}]
  ports: [{port: 53, protocol: UDP}]
)");
  EXPECT_THAT(problems(decoded), IsEmpty());
  ASSERT_EQ(decoded.objects.size(), 1u);
  const auto& endpoints = std::get<Endpoints>(decoded.objects[0].any);
  EXPECT_EQ(endpoints.key.str(), "prod/web");
  ASSERT_EQ(endpoints.slices.size(), 3u);
  EXPECT_EQ(endpoints.slices[0]->name, "web-endpoints-0-ipv4");
  EXPECT_EQ(endpoints.slices[1]->name, "web-endpoints-0-ipv6");
  EXPECT_EQ(endpoints.slices[2]->name, "web-endpoints-1-ipv4");
  const auto& first = *endpoints.slices[0];
  EXPECT_EQ(first.service.str(), "prod/web");
  EXPECT_EQ(first.ports[0].port, 80);
  ASSERT_EQ(first.endpoints.size(), 2u);
  EXPECT_EQ(first.view(first.endpoints[0].node), "n1");
  EXPECT_FALSE(first.endpoints[1].ready);
  EXPECT_FALSE(first.endpoints[1].serving);
  EXPECT_EQ(endpoints.slices[2]->ports[0].protocol, net::Protocol::Udp);
}

TEST(DecodeNode, ReadsAddressesZoneCidrsAndTaints) {
  const auto decoded = decode_text(R"(
apiVersion: v1
kind: Node
metadata:
  name: n1.example
  labels: {topology.kubernetes.io/zone: a}
  deletionTimestamp: "2024-01-01T00:00:00Z"
spec:
  podCIDR: 10.244.1.0/24
  podCIDRs: [10.244.1.0/24, "fd00:1::/64"]
  taints: [{key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}]
status:
  addresses:
  - {type: ExternalIP, address: 203.0.113.1}
  - {type: Hostname, address: n1}
  - {type: InternalIP, address: 172.31.0.11}
  - {type: InternalIP, address: "fd00:31::11"}
)");
  EXPECT_THAT(problems(decoded), IsEmpty());
  const auto* node = only<model::Node>(decoded);
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(node->name, "n1.example");
  EXPECT_EQ(node->zone, "a");
  EXPECT_TRUE(node->deleting);
  EXPECT_THAT(node->addresses,
              ElementsAre(ip("172.31.0.11"), ip("fd00:31::11"), ip("203.0.113.1")));
  EXPECT_EQ(node->pod_cidrs.size(), 2u);
  EXPECT_THAT(node->taints, ElementsAre("ToBeDeletedByClusterAutoscaler"));
}

TEST(DecodeNode, TheSinglePodCidrStandsForTheList) {
  const auto decoded = decode_text(
      "{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {podCIDR: 10.244.1.0/24}}");
  EXPECT_THAT(only<model::Node>(decoded)->pod_cidrs,
              ElementsAre(*net::Cidr::parse("10.244.1.0/24")));
  EXPECT_THAT(
      problems_of("{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {podCIDRs: [x]}}"),
      ElementsAre("1: spec.podCIDRs[0]: must be a CIDR block, got \"x\""));
}

TEST(DecodeServiceCidr, BothVersionsAreRead) {
  for (const auto* version : {"v1", "v1beta1"}) {
    const auto decoded = decode_text(std::string("{apiVersion: networking.k8s.io/") + version +
                                     ", kind: ServiceCIDR, metadata: {name: kubernetes}, "
                                     "spec: {cidrs: [10.96.0.0/12, 'fd00::/108']}}");
    ASSERT_NE(only<model::ServiceCidr>(decoded), nullptr);
    EXPECT_EQ(only<model::ServiceCidr>(decoded)->cidrs.size(), 2u);
  }
}

TEST(DecodeList, IsUnpacked) {
  const auto decoded = decode_text(R"(
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: a}}
- apiVersion: v1
  kind: List
  items:
  - {apiVersion: v1, kind: Service, metadata: {name: b}}
- {kind: Service, metadata: {name: c}}
- 5
- {apiVersion: v1, kind: Service, metadata: {name: d}, spec: {ports: [{port: -1}]}}
)");
  EXPECT_EQ(decoded.objects.size(), 2u);
  EXPECT_THAT(problems(decoded),
              ElementsAre("10: items[2].apiVersion: is missing",
                          "11: items[3]: expected an object, got number",
                          "12: items[4].spec.ports[0].port: must be between 1 and 65535, got -1"));
  EXPECT_EQ(decoded.problems[2].object, "Service d");
}

TEST(DecodeList, ItemsOfATypedListNeedNoKind) {
  EXPECT_EQ(decode_text("{apiVersion: v1, kind: ServiceList, items: [{metadata: {name: a}}]}")
                .objects.size(),
            1u);
  EXPECT_EQ(decode_text("{apiVersion: discovery.k8s.io/v1, kind: EndpointSliceList, items: []}")
                .objects.size(),
            0u);
}

TEST(Decode, OtherKindsAreNamedOnce) {
  const auto decoded = decode_text(
      "{apiVersion: apps/v1, kind: Deployment}\n---\n{apiVersion: apps/v1, kind: Deployment}\n---\n"
      "{apiVersion: discovery.k8s.io/v1beta1, kind: EndpointSlice, a: 1, a: 2}\n");
  EXPECT_THAT(decoded.skipped_kinds,
              ElementsAre("apps/v1 Deployment", "discovery.k8s.io/v1beta1 EndpointSlice"));
  EXPECT_THAT(problems(decoded), IsEmpty());
}

TEST(Decode, DocumentsWithoutKindAreErrors) {
  EXPECT_THAT(problems_of("just text"), ElementsAre("1: : expected an object, got string"));
  EXPECT_THAT(problems_of("a: 1"), ElementsAre("1: kind: is missing", "1: apiVersion: is missing"));
}

TEST(Decode, ARepeatedKeyIsAnErrorWithItsLine) {
  const auto decoded = decode_text(
      "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\nspec:\n  clusterIP: 10.0.0.1\n"
      "  clusterIP: 10.0.0.2\n");
  EXPECT_THAT(problems(decoded), ElementsAre("7: : key \"clusterIP\" already set in map"));
  EXPECT_TRUE(decoded.objects.empty());
}

TEST(Decode, ABrokenObjectDoesNotHideTheOthers) {
  const auto decoded = decode_text(
      "{apiVersion: v1, kind: Service, metadata: {name: A}}\n---\n"
      "{apiVersion: v1, kind: Service, metadata: {name: b}}\n");
  EXPECT_EQ(decoded.objects.size(), 1u);
  EXPECT_EQ(decoded.objects[0].at.line, 3u);
}

TEST(Decode, MillionsOfMistakesAreNotAllKept) {
  std::string text = "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {externalIPs: [";
  for (int i = 0; i < 10'000; ++i)
    text += "x,";
  text += "], type: Magic}}";
  const auto decoded = decode_text(text);
  EXPECT_EQ(decoded.problems.size(), Problems::kMost + 2);
  EXPECT_TRUE(decoded.objects.empty());
}

}  // namespace
}  // namespace source
