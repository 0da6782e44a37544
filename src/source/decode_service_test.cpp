#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "source/decode.h"
#include "source/test_decode.h"

namespace source {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

model::Service service(const std::string& spec, const std::string& labels = "{}") {
  const auto decoded =
      decode_text("{apiVersion: v1, kind: Service, metadata: {name: web, labels: " + labels +
                  "}, spec: {" + spec + "}}");
  EXPECT_THAT(problems(decoded), IsEmpty());
  const auto* found = only<model::Service>(decoded);
  return found == nullptr ? model::Service{} : *found;
}

std::vector<std::string> service_problems(const std::string& spec) {
  return problems_of("{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {" + spec +
                     "}}");
}

TEST(DecodeService, FillsInTheDefaultsOfTheApiServer) {
  const auto web = service("clusterIP: 10.0.0.1, ports: [{port: 80}], sessionAffinity: ClientIP");
  EXPECT_EQ(web.key.str(), "default/web");
  EXPECT_EQ(web.type, model::ServiceType::ClusterIp);
  EXPECT_EQ(web.skip, model::SkipReason::None);
  EXPECT_EQ(web.cluster_ips[0], ip("10.0.0.1"));
  EXPECT_FALSE(web.cluster_ips[1]);
  EXPECT_EQ(web.ports, (std::vector<model::ServicePort>{{"", net::Protocol::Tcp, 80, 0}}));
  EXPECT_EQ(web.affinity_timeout_s, 10800u);
  EXPECT_FALSE(web.internal_policy_local);
  EXPECT_FALSE(web.external_policy_local);
  EXPECT_FALSE(service("clusterIP: 10.0.0.1").affinity_timeout_s);
}

TEST(DecodeService, TakesTheAnnotationsOfModesAsTheyAre) {
  const auto annotated = [](const std::string& annotations) {
    return "{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {" + annotations +
           "}}, spec: {clusterIP: 10.0.0.1}}";
  };
  const auto decoded = decode_text(
      annotated("a: b, ipvs.kube-proxy/scheduler: Not Good, ipvs.kube-proxy/weights: \" *=1\", "
                "userspace.kube-proxy/proxy-protocol: V2"));
  EXPECT_THAT(problems(decoded), IsEmpty());
  const auto* web = only<model::Service>(decoded);
  ASSERT_NE(web, nullptr);
  EXPECT_EQ(web->ipvs_scheduler, "Not Good");
  EXPECT_EQ(web->ipvs_weights, " *=1");
  EXPECT_EQ(web->proxy_protocol, "V2");
  EXPECT_EQ(service("clusterIP: 10.0.0.1").ipvs_scheduler, "");
  EXPECT_THAT(problems_of(annotated("ipvs.kube-proxy/weights: 1")), SizeIs(1));
}

TEST(DecodeService, ReadsEveryFieldOfTheModel) {
  const auto decoded = decode_text(R"(
apiVersion: v1
kind: Service
metadata: {name: 7web, namespace: prod}
spec:
  type: LoadBalancer
  clusterIP: 10.0.0.1
  clusterIPs: [10.0.0.1, "fd00::1"]
  ipFamilies: [IPv4, IPv6]
  ports:
  - {name: http, port: 80, nodePort: 30080, targetPort: web, appProtocol: x}
  - {name: dns, port: 53, protocol: UDP}
  - {name: dns, port: 53, protocol: TCP}
  - {name: s, port: 9, protocol: SCTP}
  externalIPs: [1.2.3.4, "2001:db8::1"]
  loadBalancerSourceRanges: [" 10.0.0.0/8 ", 0.0.0.0/0]
  sessionAffinity: ClientIP
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 86400}}
  externalTrafficPolicy: Local
  internalTrafficPolicy: Local
  healthCheckNodePort: 32000
status:
  loadBalancer:
    ingress:
    - {ip: 192.0.2.1}
    - {ip: 192.0.2.2, ipMode: VIP}
    - {ip: 192.0.2.3, ipMode: Proxy}
    - {hostname: lb.example.com}
)");
  EXPECT_THAT(problems(decoded), IsEmpty());
  const auto* web = only<model::Service>(decoded);
  ASSERT_NE(web, nullptr);
  EXPECT_EQ(web->key.str(), "prod/7web");
  EXPECT_EQ(web->type, model::ServiceType::LoadBalancer);
  EXPECT_EQ(web->cluster_ips[1], ip("fd00::1"));
  EXPECT_EQ(web->ports.size(), 4u);
  EXPECT_EQ(web->ports[0].node_port, 30080);
  EXPECT_EQ(web->ports[3].protocol, net::Protocol::Sctp);
  EXPECT_THAT(web->external_ips, ElementsAre(ip("1.2.3.4"), ip("2001:db8::1")));
  EXPECT_THAT(web->load_balancer_ips, ElementsAre(ip("192.0.2.1"), ip("192.0.2.2")));
  EXPECT_THAT(web->source_ranges,
              ElementsAre(*net::Cidr::parse("10.0.0.0/8"), *net::Cidr::parse("0.0.0.0/0")));
  EXPECT_EQ(web->affinity_timeout_s, 86400u);
  EXPECT_TRUE(web->external_policy_local);
  EXPECT_TRUE(web->internal_policy_local);
  EXPECT_EQ(web->health_check_node_port, 32000);
}

TEST(DecodeService, SaysWhyAServiceIsNotProxied) {
  EXPECT_EQ(service("clusterIP: None").skip, model::SkipReason::Headless);
  EXPECT_EQ(service("clusterIPs: [None]").skip, model::SkipReason::Headless);
  EXPECT_EQ(service("").skip, model::SkipReason::NoClusterIp);
  EXPECT_EQ(service("clusterIP: ''").skip, model::SkipReason::NoClusterIp);
  EXPECT_EQ(service("type: ExternalName, clusterIP: 10.0.0.1").skip,
            model::SkipReason::ExternalName);
  EXPECT_EQ(service("clusterIP: 10.0.0.1", "{service.kubernetes.io/service-proxy-name: ''}").skip,
            model::SkipReason::OtherProxy);
  // That label counts for slices only.
  EXPECT_EQ(service("clusterIP: 10.0.0.1", "{service.kubernetes.io/headless: ''}").skip,
            model::SkipReason::None);
}

TEST(DecodeService, FindsTheClusterIpOfEachFamily) {
  EXPECT_EQ(service("clusterIPs: [10.0.0.1]").cluster_ips[0], ip("10.0.0.1"));
  EXPECT_EQ(service("clusterIP: 'fd00::1'").cluster_ips[1], ip("fd00::1"));
  const auto dual = service("clusterIPs: ['fd00::1', 10.0.0.1]");
  EXPECT_EQ(dual.cluster_ips[0], ip("10.0.0.1"));
  EXPECT_EQ(dual.cluster_ips[1], ip("fd00::1"));
}

TEST(DecodeService, AnAddressAgainstItsIpFamilyIsIgnored) {
  const auto decoded = decode_text(
      "{apiVersion: v1, kind: Service, metadata: {name: web},\n"
      " spec: {clusterIPs: [10.0.0.1, 'fd00::1'], ipFamilies: [IPv4, IPv4]}}");
  EXPECT_THAT(problems(decoded),
              ElementsAre("warning 2: spec.clusterIPs[1]: ipFamilies says IPv4 but the address is "
                          "IPv6, ignoring it"));
  EXPECT_FALSE(only<model::Service>(decoded)->cluster_ips[1]);
}

TEST(DecodeService, ComplainsWithFieldAndLine) {
  EXPECT_THAT(problems_of("apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n"
                          "spec:\n  ports:\n  - port: 70000\n  - name: a\n"),
              ElementsAre("7: spec.ports[0].port: must be between 1 and 65535, got 70000",
                          "8: spec.ports[1].port: is missing"));
}

TEST(DecodeService, RejectsWhatTheApiServerRejects) {
  const auto rejects = [](const std::string& spec, const std::string& message) {
    EXPECT_THAT(service_problems(spec), testing::Contains(HasSubstr(message))) << spec;
  };
  rejects("ports: 80", "spec.ports: expected an array, got number");
  rejects("ports: [80]", "spec.ports[0]: expected an object, got number");
  rejects("ports: [{port: '80'}]", "spec.ports[0].port: expected a whole number, got string");
  rejects("ports: [{port: 80.5}]", "spec.ports[0].port: expected a whole number, got number");
  rejects("ports: [{port: 0}]", "must be between 1 and 65535, got 0");
  rejects("ports: [{port: 80, nodePort: -1}]", "nodePort: must be between 0 and 65535, got -1");
  rejects("ports: [{port: 80, protocol: ICMP}]", "protocol: must be TCP, UDP or SCTP");
  rejects("ports: [{port: 80, name: 'a b'}]", "spec.ports[0].name: must be a DNS label");
  rejects("ports: [{port: 80}, {port: 81}]", "spec.ports[1]: a second TCP port named \"\"");
  rejects("ports: [{name: a, port: 80}, {name: b, port: 80}]", "a second port 80/TCP");
  rejects("type: Magic", "spec.type: must be one of ClusterIP, NodePort");
  rejects("clusterIP: 10.0.0", "spec.clusterIP: must be an IP address, got \"10.0.0\"");
  rejects("clusterIP: 10", "spec.clusterIP: expected a string, got number");
  rejects("clusterIP: 10.0.0.1, clusterIPs: [10.0.0.2]", "must be the same as clusterIP");
  rejects("clusterIPs: [10.0.0.1, 10.0.0.2]", "spec.clusterIPs[1]: a second IPv4 address");
  rejects("clusterIPs: [10.0.0.1, 'fd00::1', 10.0.0.3]", "at most 2 addresses");
  rejects("clusterIP: 10.0.0.1, ipFamilies: [IPv5]", "spec.ipFamilies[0]: must be one of IPv4");
  rejects("sessionAffinity: Sticky", "spec.sessionAffinity: must be one of None, ClientIP");
  rejects("sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}",
          "spec.sessionAffinityConfig.clientIP.timeoutSeconds: must be between 1 and 86400");
  rejects("sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}",
          "must be between 1 and 86400, got 86401");
  rejects("externalTrafficPolicy: Near", "spec.externalTrafficPolicy: must be one of");
  rejects("internalTrafficPolicy: Near", "spec.internalTrafficPolicy: must be one of");
  rejects("healthCheckNodePort: 65536", "must be between 0 and 65535, got 65536");
  rejects("externalIPs: {a: b}", "spec.externalIPs: expected an array, got object");
}

TEST(DecodeService, SkipsInvalidExternalIpsAndRangesWithAWarning) {
  const auto decoded = decode_text(
      "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.0.0.1,"
      " externalIPs: [x, ' ', 1.2.3.4], loadBalancerSourceRanges: [10.0.0.0]}}");
  EXPECT_THAT(problems(decoded),
              ElementsAre("warning 1: spec.externalIPs[0]: Skipping invalid IP \"x\"",
                          "warning 1: spec.loadBalancerSourceRanges[0]: Invalid CIDR ignored "
                          "\"10.0.0.0\""));
  EXPECT_THAT(only<model::Service>(decoded)->external_ips, ElementsAre(ip("1.2.3.4")));
}

}  // namespace
}  // namespace source
