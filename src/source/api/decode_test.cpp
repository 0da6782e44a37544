// Both encodings of an object give the same object of the model, and the same complaint.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "codec/document.h"
#include "source/api/decode_shared.h"
#include "source/api/test_encode.h"
#include "source/api/test_same.h"
#include "source/api/wire.h"
#include "support/builders.h"

namespace source::api {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<codec::Value> documents(std::string_view text) {
  std::vector<codec::Value> out;
  const auto end = codec::parse_stream(text, [&](codec::Value document) -> base::Result<> {
    out.push_back(std::move(document));
    return {};
  });
  EXPECT_TRUE(end) << end.error().text;
  return out;
}

std::optional<Resource> resource_of(const codec::Value& object) {
  for (size_t i = 0; i < kResources; ++i) {
    const auto resource = static_cast<Resource>(i);
    if (encode::text_of(object, "kind") == kind_of(resource).name) return resource;
  }
  return std::nullopt;
}

std::vector<Event> events(Resource resource, Encoding encoding, std::string_view bytes) {
  std::vector<Event> out;
  EventReader reader(resource, encoding);
  const auto end = reader.feed(bytes, [&](Event event) { out.push_back(std::move(event)); });
  EXPECT_TRUE(end) << end.error().text;
  EXPECT_TRUE(reader.finish());
  return out;
}

Item added(Encoding encoding, const codec::Value& object) {
  const auto bytes = encoding == Encoding::Protobuf ? encode::event("ADDED", object)
                                                    : encode::json_event("ADDED", object);
  const auto found = events(resource_of(object).value(), encoding, bytes);
  EXPECT_EQ(found.size(), 1u);
  return found.empty() ? Item{} : found[0].item;
}

Item added(std::string_view text) {
  const auto objects = documents(text);
  return added(Encoding::Protobuf, objects.at(0));
}

void expect_alike(const codec::Value& object) {
  const Item proto = added(Encoding::Protobuf, object);
  const Item json = added(Encoding::Json, object);
  EXPECT_EQ(proto.problem, json.problem) << encode::json(object);
  EXPECT_TRUE(same(proto, json)) << encode::json(object);
}

TEST(DecodeObject, RecordingsAreTheSameInBothEncodings) {
  size_t objects = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/recordings")) {
    if (!entry.is_directory()) continue;
    for (const auto& object : documents(read_file(entry.path() / "objects.yaml"))) {
      if (!resource_of(object)) continue;
      expect_alike(object);
      ++objects;
    }
  }
  EXPECT_GT(objects, 100u);
}

// The two begin with two bytes for the fuzz target.
TEST(DecodeObject, BytesWrittenByGoAreTheSameInBothEncodings) {
  size_t pairs = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/corpus/wire")) {
    auto path = entry.path();
    if (!path.filename().string().starts_with("go-") || path.extension() != ".pb") continue;
    SCOPED_TRACE(path.string());
    const std::string proto = read_file(path).substr(2);
    const std::string json = read_file(path.replace_extension(".json")).substr(2);
    const auto resource = static_cast<Resource>(read_file(entry.path()).at(0) & 3);
    if (path.stem().extension() == ".list") {
      const auto from_proto = decode_list(resource, Encoding::Protobuf, proto);
      const auto from_json = decode_list(resource, Encoding::Json, json);
      ASSERT_TRUE(from_proto && from_json);
      EXPECT_TRUE(std::ranges::equal(from_proto->items, from_json->items,
                                     [](const Item& a, const Item& b) { return same(a, b); }));
      EXPECT_EQ(from_proto->resource_version, "2000");
      EXPECT_EQ(from_proto->continue_token, from_json->continue_token);
    } else {
      const auto from_proto = events(resource, Encoding::Protobuf, proto);
      const auto from_json = events(resource, Encoding::Json, json);
      EXPECT_TRUE(std::ranges::equal(from_proto, from_json,
                                     [](const Event& a, const Event& b) { return same(a, b); }));
      EXPECT_EQ(from_proto.back().status.reason, "Expired");
    }
    ++pairs;
  }
  EXPECT_GE(pairs, 8u);
}

// Puts together JSON, some of it wrong.
class Dice {
 public:
  static bool flip() { return *rc::gen::arbitrary<bool>(); }

  static std::string pick(std::vector<std::string> choices) {
    return *rc::gen::elementOf(std::move(choices));
  }

  // A member, or nothing.
  static std::string maybe(const std::string& name, std::vector<std::string> values) {
    return flip() ? "" : R"(,")" + name + R"(":)" + pick(std::move(values));
  }

  static std::string array(const std::function<std::string()>& element, int most) {
    std::string out = "[";
    const int count = *rc::gen::inRange(0, most + 1);
    for (int i = 0; i < count; ++i)
      out += (i == 0 ? "" : ",") + element();
    return out + "]";
  }
};

const std::vector<std::string> kIps{R"("10.0.0.1")",  R"("10.0.0.2")", R"("fd00::1")",
                                    R"("010.0.0.1")", R"("")",         R"("::ffff:1.2.3.4")",
                                    R"("x")",         R"("None")"};
const std::vector<std::string> kNames{R"("web")", R"("dns")", R"("")", R"("No_Good")", R"("a.b")"};
const std::vector<std::string> kNumbers{"0", "1", "80", "443", "65535", "65536", "-1"};
const std::vector<std::string> kCidrs{R"("10.0.0.0/8")", R"(" fd00::/8 ")", R"("fd00::/8")",
                                      R"("")", R"("x")"};

std::string random_meta(std::vector<std::string> names) {
  return R"("metadata":{"name":)" + Dice::pick(std::move(names)) + R"(,"resourceVersion":"7")" +
         Dice::maybe("namespace", {R"("prod")", R"("UP")"}) +
         Dice::maybe("deletionTimestamp", {R"("2026-01-01T00:00:00Z")", "null"}) +
         R"(,"labels":{"a":"b")" +
         Dice::maybe("service.kubernetes.io/service-proxy-name", {R"("")", R"("x")"}) +
         Dice::maybe("kubernetes.io/service-name",
                     {R"("web")", R"("web")", R"("")", R"("No_Good")"}) +
         Dice::maybe("topology.kubernetes.io/zone", {R"("a")", R"("")"}) +
         (*rc::gen::inRange(0, 10) == 0 ? R"(,"service.kubernetes.io/headless":"")" : "") +
         R"(},"annotations":{"a":"b")" +
         Dice::maybe("ipvs.kube-proxy/scheduler", {R"("")", R"("wrr")", R"("Not Good")"}) +
         Dice::maybe("ipvs.kube-proxy/weights", {R"("*=1")", R"("a\nb")"}) +
         Dice::maybe("userspace.kube-proxy/proxy-protocol", {R"("v2")", R"("")"}) + "}}";
}

codec::Value parsed(const std::string& text) { return codec::json::parse(text).value(); }

std::string random_service_port() {
  return R"({"targetPort":"x")" + Dice::maybe("name", kNames) + Dice::maybe("port", kNumbers) +
         Dice::maybe("protocol", {R"("TCP")", R"("UDP")", R"("SCTP")", R"("")", R"("tcp")"}) +
         Dice::maybe("nodePort", kNumbers) + "}";
}

RC_GTEST_PROP(DecodeObject, AnyServiceIsTheSameInBothEncodings, ()) {
  const std::vector<std::string> policies{R"("Local")", R"("Cluster")", R"("")", R"("local")"};
  const auto ip = [] { return Dice::pick(kIps); };
  expect_alike(parsed(
      R"({"apiVersion":"v1","kind":"Service",)" +
      random_meta({R"("web")", R"("7up")", R"("a.b")"}) + R"(,"spec":{"selector":{"app":"web"})" +
      Dice::maybe("clusterIP", kIps) + Dice::maybe("clusterIPs", {Dice::array(ip, 3)}) +
      R"(,"externalIPs":)" + Dice::array(ip, 3) +
      Dice::maybe("ipFamilies",
                  {R"(["IPv4"])", R"(["IPv6","IPv4"])", R"(["IPv4","IPv6"])", R"(["ip"])"}) +
      Dice::maybe("type", {R"("NodePort")", R"("LoadBalancer")", R"("ExternalName")", R"("")",
                           R"("Odd")"}) +
      R"(,"ports":)" + Dice::array(random_service_port, 3) + R"(,"loadBalancerSourceRanges":)" +
      Dice::array([] { return Dice::pick(kCidrs); }, 2) +
      Dice::maybe("sessionAffinity", {R"("ClientIP")", R"("None")", R"("")", R"("x")"}) +
      Dice::maybe(
          "sessionAffinityConfig",
          {"{}", R"({"clientIP":{}})", R"({"clientIP":{"timeoutSeconds":5}})",
           R"({"clientIP":{"timeoutSeconds":0}})", R"({"clientIP":{"timeoutSeconds":86401}})"}) +
      Dice::maybe("externalTrafficPolicy", policies) +
      Dice::maybe("internalTrafficPolicy", policies) +
      Dice::maybe("healthCheckNodePort", kNumbers) + R"(},"status":{"loadBalancer":{"ingress":)" +
      Dice::array(
          [] {
            return R"({"hostname":"h")" + Dice::maybe("ip", kIps) +
                   Dice::maybe("ipMode", {R"("VIP")", R"("Proxy")", R"("")", R"("vip")"}) + "}";
          },
          2) +
      "}}}"));
}

std::string random_endpoint() {
  const std::vector<std::string> nodes{R"("node1")", R"("node2")", R"("n.example.com")", R"("")",
                                       R"("N")"};
  const auto hint = [](std::vector<std::string> names) {
    return [names] { return R"({"name":)" + Dice::pick(names) + "}"; };
  };
  const std::vector<std::string> truths{"true", "false"};
  return R"({"addresses":)" + Dice::array([] { return Dice::pick(kIps); }, 2) +
         R"(,"conditions":{"x":1)" + Dice::maybe("ready", truths) + Dice::maybe("serving", truths) +
         Dice::maybe("terminating", truths) + "}" + Dice::maybe("nodeName", nodes) +
         (Dice::flip() ? ""
                       : R"(,"hints":{"forZones":)" +
                             Dice::array(hint({R"("A_1")", R"("b")", R"("")", R"("/")"}), 2) +
                             R"(,"forNodes":)" + Dice::array(hint(nodes), 2) + "}") +
         "}";
}

RC_GTEST_PROP(DecodeObject, AnyEndpointSliceIsTheSameInBothEncodings, ()) {
  const auto port = [] {
    return R"({"appProtocol":"x")" + Dice::maybe("name", kNames) + Dice::maybe("port", kNumbers) +
           Dice::maybe("protocol", {R"("TCP")", R"("UDP")", R"("tcp")"}) + "}";
  };
  expect_alike(parsed(R"({"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice",)" +
                      random_meta({R"("web-abc")", R"("web.abc")", R"("no/good")"}) +
                      Dice::maybe("addressType", {R"("IPv4")", R"("IPv4")", R"("IPv6")",
                                                  R"("FQDN")", R"("")", R"("x")"}) +
                      R"(,"endpoints":)" + Dice::array(random_endpoint, 3) + R"(,"ports":)" +
                      Dice::array(port, 2) + "}"));
}

RC_GTEST_PROP(DecodeObject, AnyNodeIsTheSameInBothEncodings, ()) {
  const auto address = [] {
    return R"({"type":)" + Dice::pick({R"("InternalIP")", R"("ExternalIP")", R"("Hostname")"}) +
           R"(,"address":)" + Dice::pick(kIps) + "}";
  };
  const auto block = [] { return Dice::pick(kCidrs); };
  expect_alike(
      parsed(R"({"apiVersion":"v1","kind":"Node",)" +
             random_meta({R"("node1")", R"("n.x.org")", R"("N")"}) + R"(,"spec":{"taints":)" +
             Dice::array([] { return R"({"key":"k","effect":"NoSchedule"})"; }, 2) +
             Dice::maybe("podCIDR", kCidrs) + Dice::maybe("podCIDRs", {Dice::array(block, 2)}) +
             R"(},"status":{"addresses":)" + Dice::array(address, 3) + "}}"));
}

RC_GTEST_PROP(DecodeObject, AnyServiceCidrIsTheSameInBothEncodings, ()) {
  expect_alike(parsed(R"({"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR",)" +
                      random_meta({R"("kubernetes")", R"("no good")"}) + R"(,"spec":{"cidrs":)" +
                      Dice::array([] { return Dice::pick(kCidrs); }, 3) + "}}"));
}

TEST(DecodeObject, ReadsEveryFieldOfAService) {
  const auto item = added(R"(
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: prod
  resourceVersion: "41"
  annotations: {a: b, ipvs.kube-proxy/scheduler: wrr, ipvs.kube-proxy/weights: "node/a=2, *=1",
                userspace.kube-proxy/proxy-protocol: v2}
spec:
  type: LoadBalancer
  clusterIP: 10.0.0.1
  clusterIPs: [10.0.0.1, "fd00::1"]
  ipFamilies: [IPv4, IPv6]
  ports: [{name: http, port: 80, nodePort: 30080, protocol: TCP}, {name: dns, port: 53, protocol: UDP}]
  externalIPs: [1.2.3.4]
  loadBalancerSourceRanges: [10.0.0.0/8]
  sessionAffinity: ClientIP
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}}
  externalTrafficPolicy: Local
  internalTrafficPolicy: Local
  healthCheckNodePort: 32000
status: {loadBalancer: {ingress: [{ip: 192.0.2.1}, {ip: 192.0.2.2, ipMode: Proxy}]}}
)");
  EXPECT_EQ(item.ns, "prod");
  EXPECT_EQ(item.name, "web");
  EXPECT_EQ(item.resource_version, "41");
  EXPECT_EQ(item.problem, "");
  model::Service expected = build::service("prod/web")
                                .cluster_ip("10.0.0.1")
                                .cluster_ip("fd00::1")
                                .port("http", 80, 30080)
                                .port("dns", 53, 0, net::Protocol::Udp)
                                .external_ip("1.2.3.4")
                                .load_balancer("192.0.2.1")
                                .source_range("10.0.0.0/8")
                                .affinity(600)
                                .local_external()
                                .local_internal()
                                .health_check(32000)
                                .value();
  expected.ipvs_scheduler = "wrr";
  expected.ipvs_weights = "node/a=2, *=1";
  expected.proxy_protocol = "v2";
  EXPECT_TRUE(same(item.object, Item::Object(std::make_shared<const model::Service>(expected))));
}

TEST(DecodeObject, ReadsEveryFieldOfAnEndpointSlice) {
  const auto item = added(R"(
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: prod, labels: {a: b, kubernetes.io/service-name: web}}
addressType: IPv6
endpoints:
- {addresses: ["fd00::2"], conditions: {ready: true}, nodeName: node1, hints: {forZones: [{name: zone-a}]}}
- {addresses: ["fd00::3"], conditions: {ready: false, serving: true, terminating: true}, nodeName: node2}
ports: [{name: http, port: 8080, protocol: TCP}]
)");
  EXPECT_EQ(item.problem, "");
  const auto expected = build::slice("prod/web", "web-1", net::Family::V6)
                            .port("http", 8080)
                            .ready("fd00::2", "node1")
                            .for_zone("zone-a")
                            .draining("fd00::3", "node2");
  EXPECT_TRUE(same(item.object, Item::Object(expected.ptr())));
}

TEST(DecodeObject, BothEncodingsSayWhenTheChangeOfASliceHappened) {
  const auto slice = [](const std::string& annotation) {
    return documents(
               "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n"
               "metadata:\n  name: web-1\n  namespace: default\n"
               "  labels: {kubernetes.io/service-name: web}\n"
               "  annotations: {a: b, endpoints.kubernetes.io/last-change-trigger-time: \"" +
               annotation + "\"}\n")
        .at(0);
  };
  const auto triggered = [&](Encoding encoding, const std::string& annotation) {
    const Item item = added(encoding, slice(annotation));
    return std::get<std::shared_ptr<const model::EndpointSlice>>(item.object)
        ->trigger_time.time_since_epoch()
        .count();
  };
  for (const auto encoding : {Encoding::Protobuf, Encoding::Json}) {
    EXPECT_EQ(triggered(encoding, "2026-11-15T20:43:16.939599673Z"), 1794775396939599673);
    EXPECT_EQ(triggered(encoding, "2026-11-15T19:43:16.5-01:00"), 1794775396500000000);
    EXPECT_EQ(triggered(encoding, "2026-11-15"), 0);
    EXPECT_EQ(triggered(encoding, ""), 0);
  }
}

TEST(DecodeObject, NamesThatRepeatStandInTheTextOnce) {
  const auto item = added(R"(
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1], nodeName: n1}, {addresses: [10.0.0.2], nodeName: n1}]
)");
  const auto slice = std::get<std::shared_ptr<const model::EndpointSlice>>(item.object);
  EXPECT_EQ(slice->text, "n1");
  EXPECT_EQ(slice->endpoints[0].node, slice->endpoints[1].node);
}

TEST(DecodeObject, ABrokenObjectIsNamedAndNotUsed) {
  const auto item = added(R"(
apiVersion: v1
kind: Service
metadata: {name: web, namespace: prod}
spec: {clusterIP: 10.0.0.1, externalIPs: [x], ports: [{port: 70000}]}
)");
  EXPECT_EQ(item.name, "web");
  EXPECT_EQ(item.problem,
            "Service prod/web: spec.ports[0].port: must be between 1 and 65535, got 70000");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(item.object));
}

TEST(DecodeObject, WhatIsIgnoredIsSaidAndTheRestIsUsed) {
  const auto item = added(R"(
apiVersion: v1
kind: Service
metadata: {name: web, namespace: prod}
spec: {clusterIP: 10.0.0.1, externalIPs: [x, 1.2.3.4]}
)");
  EXPECT_EQ(item.problem, R"(Service prod/web: spec.externalIPs[0]: Skipping invalid IP "x")");
  EXPECT_FALSE(std::holds_alternative<std::monostate>(item.object));
}

TEST(DecodeObject, HostileNamesDoNotGetIntoMessagesAsTheyAre) {
  const auto item =
      added(R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"a\u001b[2J\nb"}})");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(item.object));
  EXPECT_THAT(item.problem,
              StartsWith(R"(Service "a\x1b[2J\nb": metadata.name: must be a DNS label)"));
}

// Each field of the schema once in every wire type but its own.
std::string strays(const encode::Schema& schema) {
  using encode::As;
  std::string out;
  protozero::pbf_writer writer(out);
  for (const auto& rule : schema.fields) {
    const bool number = rule.as == As::Number || rule.as == As::Bool;
    if (number) {
      writer.add_string(rule.number, "stray");
    } else {
      writer.add_uint64(rule.number, 1);
    }
    writer.add_fixed64(rule.number, 1);
    writer.add_fixed32(rule.number, 1);
  }
  return out;
}

const encode::Schema kMapEntry{{{"key", 1}, {"value", 2}}};

const encode::Schema* schema_inside(const encode::Schema& schema, uint32_t number) {
  const auto rule = std::ranges::find(schema.fields, number, &encode::FieldRule::number);
  if (rule == schema.fields.end()) return nullptr;
  return rule->as == encode::As::TextMap ? &kMapEntry : rule->schema;
}

// With strays before and behind its own fields, and so in every message inside.
std::string with_strays(std::string_view message, const encode::Schema& schema) {
  std::string out = strays(schema);
  protozero::pbf_writer writer(out);
  for (MessageReader reader(message); reader.next();) {
    const uint32_t number = reader.tag();
    if (reader.wire_type() == protozero::pbf_wire_type::varint) {
      writer.add_uint64(number, reader.get_uint64());
      continue;
    }
    const std::string_view value = reader.get_view();
    const auto* inside = schema_inside(schema, number);
    writer.add_string(number, inside ? with_strays(value, *inside) : std::string(value));
  }
  return out + strays(schema);
}

TEST(DecodeObject, FieldsOfAnotherWireTypeAreSkipped) {
  std::set<Resource> seen;
  for (const auto& entry : std::filesystem::directory_iterator("tests/recordings")) {
    if (!entry.is_directory()) continue;
    for (const auto& object : documents(read_file(entry.path() / "objects.yaml"))) {
      const auto resource = resource_of(object);
      if (!resource) continue;
      seen.insert(*resource);
      const std::string kind = encode::text_of(object, "kind");
      const auto raw = with_strays(encode::message(object), *encode::schema_of(kind));
      const auto bytes = encode::event(
          "ADDED", encode::envelope(encode::text_of(object, "apiVersion"), kind, raw));
      const auto found = events(*resource, Encoding::Protobuf, bytes);
      ASSERT_EQ(found.size(), 1u);
      EXPECT_TRUE(same(found[0].item, added(Encoding::Protobuf, object)))
          << encode::json(object) << "\n"
          << found[0].item.problem;
    }
  }
  EXPECT_EQ(seen.size(), kResources);
}

// A field of that number and wire type.
std::string field_of(uint32_t number, uint32_t type) {
  const std::string values[]{"\x01", std::string(8, '\1'), std::string("\1x"), "",
                             "",     std::string(4, '\1')};
  std::string field;
  protozero::pbf_writer(field).add_uint32(number, 0);
  field.pop_back();
  field.front() = static_cast<char>((field.front() & ~7) | static_cast<char>(type));
  return field + values[type];
}

// What is in the message may make no sense. It has a name, so there is an object, or the bytes are broken.
TEST(DecodeObject, FieldsOfEveryNumberAndWireTypeAreAnErrorOrAnObject) {
  for (uint32_t number = 1; number < 30; ++number) {
    for (const uint32_t type : {0u, 1u, 2u, 5u}) {
      for (size_t resource = 0; resource < kResources; ++resource) {
        const std::string inner = field_of(number, type);
        std::string raw("\x0a\x03\x0a\x01x", 5);  // metadata {name: "x"}
        for (uint32_t outer = 2; outer < 5; ++outer)
          protozero::pbf_writer(raw).add_message(outer, inner);
        raw += inner;
        const auto& kind = kind_of(static_cast<Resource>(resource));
        const auto bytes =
            encode::event("ADDED", encode::envelope(kind.api_version, kind.name, raw));
        EventReader reader(static_cast<Resource>(resource), Encoding::Protobuf);
        std::vector<std::string> names;
        const auto end =
            reader.feed(bytes, [&](const Event& event) { names.push_back(event.item.name); });
        SCOPED_TRACE(testing::Message() << kind.name << " " << number << " " << type);
        if (end) {
          EXPECT_THAT(names, ElementsAre("x"));
        } else {
          EXPECT_THAT(end.error().text, StartsWith("broken protobuf: "));
          EXPECT_EQ(type, 2u);  // numbers of any kind are whole
        }
      }
    }
  }
}

TEST(DecodeObject, BytesThatAreCutAnywhereAreAnErrorOrAnObject) {
  const auto objects = documents(read_file("tests/recordings/dual-stack/objects.yaml"));
  for (const auto& object : objects) {
    if (!resource_of(object)) continue;
    const std::string raw = encode::message(object);
    for (size_t size = 0; size < raw.size(); ++size) {
      const auto bytes = encode::event(
          "ADDED", encode::envelope(encode::text_of(object, "apiVersion"),
                                    encode::text_of(object, "kind"), raw.substr(0, size)));
      EventReader reader(*resource_of(object), Encoding::Protobuf);
      const auto end = reader.feed(bytes, [](const Event&) {});
      EXPECT_THAT(end ? "" : end.error().text,
                  AnyOf("", StartsWith("broken protobuf: "), HasSubstr("without a name")));
    }
  }
}

}  // namespace
}  // namespace source::api
