#include "backend/userspace/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/userspace/test_world.h"

namespace userspace {
namespace {

using build::ip;
using build::key;
using build::service;
using build::slice;
using net::Protocol;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class LedgerTest : public WorldTest {
 protected:
  void SetUp() override {
    WorldTest::SetUp();
    if (engine != nullptr) restart(settings());
  }
  void TearDown() override {
    ledger.reset();
    WorldTest::TearDown();
  }
  void restart(const Settings& given) {
    ledger.reset();
    ledger.emplace(given, engine);
    ledger->set_addresses({ip("127.0.0.1")});
  }

  template <typename... Slices>
  backend::SyncReport put(const service& object, const Slices&... slices) {
    return update({plan::compile_service(build::entry(object, slices...), context())});
  }
  backend::SyncReport remove(const char* name) { return update({{.key = key(name), .ports = {}}}); }
  backend::SyncReport update(const std::vector<plan::ServicePlan>& plans) {
    backend::SyncReport report;
    ledger->update(plans, report);
    ledger->close_retired();
    return report;
  }

  std::string rules(PortalChain chain) const {
    return ledger->chains().at(static_cast<size_t>(chain)).rules;
  }
  // That the rules lead to, in their order.
  std::vector<uint16_t> proxy_ports() const {
    std::vector<uint16_t> ports;
    const std::string text =
        rules(PortalChain::ServicesContainer) + rules(PortalChain::NodePortsContainer);
    constexpr std::string_view kTarget = "--to-ports ";
    for (size_t at = text.find(kTarget); at != std::string::npos; at = text.find(kTarget, at + 1))
      ports.push_back(static_cast<uint16_t>(std::stoi(text.substr(at + kTarget.size()))));
    return ports;
  }

  static service web() {
    return service("default/web").cluster_ip("10.96.0.10").port("http", 80, 30080);
  }
  static service dns() {
    return service("default/dns").cluster_ip("10.96.0.11").port("dns", 53, 0, Protocol::Udp);
  }
  static slice pod(const char* address, const char* node = "node1") {
    return slice("default/web", "web-1").port("http", 8080).ready(address, node);
  }

  std::optional<Ledger> ledger;
};

TEST_F(LedgerTest, AConnectionToTheProxyPortReachesAnEndpoint) {
  const auto endpoint = listen_at("127.0.0.2");
  const auto report = put(web(), pod("127.0.0.2"));
  EXPECT_THAT(report.warnings, IsEmpty());
  ASSERT_THAT(proxy_ports(), SizeIs(2));
  EXPECT_EQ(proxy_ports()[0], proxy_ports()[1]);
  EXPECT_TRUE(leads_to(proxy_ports()[0], endpoint));
  EXPECT_EQ(ledger->endpoints(), 1U);
}

TEST_F(LedgerTest, TheFamiliesHaveTheSamePortsSideBySide) {
  auto six = settings();
  six.context = context(net::Family::V6);
  six.host = ip("::1");
  six.ports = {40000, 40000};
  const Place place{Protocol::Tcp, ip("::1"), 8080};
  const auto endpoint = bind_front(place);
  if (!endpoint) GTEST_SKIP() << "needs IPv6: " << endpoint.error().text;
  ASSERT_TRUE(serve(endpoint->get(), place));
  auto four = settings();
  four.ports = {40000, 40000};
  restart(four);
  put(web());

  Ledger other(six, engine);
  backend::SyncReport report;
  other.update(
      {plan::compile_service(
          build::entry(web().cluster_ip("fd00:96::a"),
                       slice("default/web", "6", net::Family::V6).port("http", 8080).ready("::1")),
          six.context)},
      report);
  EXPECT_THAT(report.warnings, IsEmpty());
  EXPECT_TRUE(leads_to(40000, *endpoint, "::1"));
  EXPECT_TRUE(refuses(40000));
  EXPECT_THAT(other.chains().at(static_cast<size_t>(PortalChain::ServicesHost)).rules,
              HasSubstr("-d fd00:96::a/128 -p tcp -m comment --comment \"default/web:http\" -m tcp "
                        "--dport 80 -j DNAT --to-destination [::1]:40000\n"));
}

TEST_F(LedgerTest, EndpointsComeAndGoWithoutAnyRule) {
  const auto endpoint = listen_at("127.0.0.2");
  put(web());
  EXPECT_TRUE(ledger->take_rules_changed());
  const uint16_t port = proxy_ports().at(0);
  EXPECT_TRUE(refuses(port));
  put(web(), pod("127.0.0.2"));
  EXPECT_TRUE(leads_to(port, endpoint));
  put(web());
  EXPECT_TRUE(refuses(port));
  EXPECT_FALSE(ledger->take_rules_changed());
}

TEST_F(LedgerTest, AChangedServiceKeepsItsProxyPort) {
  put(web());
  const uint16_t port = proxy_ports().at(0);
  put(web().external_ip("192.0.2.1"));
  EXPECT_THAT(proxy_ports(), ElementsAre(port, port, port, port));
}

TEST_F(LedgerTest, UdpPortsRefuseUntilThereIsAnEndpoint) {
  put(dns());
  const uint16_t port = proxy_ports().at(0);
  EXPECT_TRUE(refuses(port, Protocol::Udp));
  put(dns(), slice("default/dns", "d").port("dns", 53, Protocol::Udp).ready("127.0.0.2"));
  EXPECT_FALSE(refuses(port, Protocol::Udp));
}

TEST_F(LedgerTest, DatagramsReachAnEndpointThatCameLater) {
  const Place place{Protocol::Udp, ip("127.0.0.2"), 53};
  const auto endpoint = bind_front(place);
  ASSERT_TRUE(endpoint) << endpoint.error().text;
  put(dns());
  put(dns(), slice("default/dns", "d").port("dns", 53, Protocol::Udp).ready("127.0.0.2"));
  const base::Fd client = connect_to({Protocol::Udp, ip("127.0.0.1"), proxy_ports().at(0)});
  ASSERT_EQ(::send(client.get(), "x", 1, 0), 1);
  pollfd waiting{.fd = endpoint->get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&waiting, 1, kPatienceMs), 1);
}

TEST_F(LedgerTest, APolicyGivesTheNodePortAFrontOfItsOwn) {
  const auto local = listen_at("127.0.0.2");
  put(web().node_port_type().local_external(), pod("127.0.0.2", "node1"));
  const auto ports = proxy_ports();
  ASSERT_THAT(ports, SizeIs(2));
  EXPECT_NE(ports[0], ports[1]);
  EXPECT_TRUE(leads_to(ports[0], local));
  EXPECT_TRUE(leads_to(ports[1], local));
}

TEST_F(LedgerTest, ClientsOfThisNodeReachEndpointsElsewhere) {
  const auto remote = listen_at("127.0.0.2");
  put(web().node_port_type().local_external(), pod("127.0.0.2", "node2"));
  EXPECT_TRUE(leads_to(proxy_ports().at(1), remote));
}

TEST_F(LedgerTest, ANodePortThatIsInUseHasNoRulesAndIsToldOnce) {
  const Place place{Protocol::Tcp, ip("0.0.0.0"), 30080};
  auto somebody = bind_front(place);
  ASSERT_TRUE(somebody && serve(somebody->get(), place));
  EXPECT_THAT(put(web()).warnings,
              ElementsAre("can't open node port for <nil>:30080/TCP: listen tcp 0.0.0.0:30080: "
                          "address already in use"));
  EXPECT_THAT(rules(PortalChain::NodePortsContainer), IsEmpty());
  EXPECT_THAT(rules(PortalChain::NodePortsNonLocal), IsEmpty());
  EXPECT_THAT(rules(PortalChain::ServicesContainer), Not(IsEmpty()));
  EXPECT_THAT(ledger->unfinished(), ElementsAre(key("default/web")));
  EXPECT_THAT(put(web()).warnings, IsEmpty());
  somebody->reset();
  put(web());
  EXPECT_THAT(rules(PortalChain::NodePortsContainer), Not(IsEmpty()));
  EXPECT_THAT(ledger->unfinished(), IsEmpty());
}

TEST_F(LedgerTest, ALocalAddressBelongsToWhoeverCameFirst) {
  put(web().external_ip("127.0.0.1"));
  const auto second =
      service("default/web2").cluster_ip("10.96.0.12").port("", 80).external_ip("127.0.0.1");
  EXPECT_THAT(put(second).warnings,
              ElementsAre("Port conflict detected on port 127.0.0.1:80/TCP.  default/web2 vs "
                          "default/web:http"));
  EXPECT_THAT(rules(PortalChain::ServicesHost),
              Not(HasSubstr("-d 127.0.0.1/32 -p tcp -m comment --comment \"default/web2\"")));
  EXPECT_THAT(rules(PortalChain::ServicesHost), HasSubstr("-d 10.96.0.12/32"));
}

TEST_F(LedgerTest, ANodePortMovesFromServiceToServiceInOneUpdate) {
  put(service("default/z").cluster_ip("10.96.0.13").port("", 80, 30080));
  const auto report = update({plan::compile_service(build::entry(web()), context()),
                              {.key = key("default/z"), .ports = {}}});
  EXPECT_THAT(report.warnings, IsEmpty());
  EXPECT_THAT(rules(PortalChain::NodePortsContainer), HasSubstr("default/web:http"));
}

TEST_F(LedgerTest, WithoutAPortLeftAServiceWaitsForOne) {
  auto tight = settings();
  tight.ports = {40000, 40000};
  restart(tight);
  put(web());
  EXPECT_THAT(put(dns()).warnings,
              ElementsAre("default/dns:dns: port allocation failed; there are no remaining ports "
                          "left to allocate in the accepted range"));
  EXPECT_THAT(put(dns()).warnings, IsEmpty());
  EXPECT_THAT(ledger->unfinished(), ElementsAre(key("default/dns")));
  remove("default/web");
  put(dns());
  EXPECT_THAT(proxy_ports(), ElementsAre(40000));
  EXPECT_THAT(ledger->unfinished(), IsEmpty());
}

TEST_F(LedgerTest, ARemovedServiceLeavesNothing) {
  put(web(), pod("127.0.0.2"));
  const uint16_t port = proxy_ports().at(0);
  remove("default/web");
  EXPECT_TRUE(ledger->take_rules_changed());
  EXPECT_THAT(proxy_ports(), IsEmpty());
  EXPECT_THAT(ledger->services(), IsEmpty());
  EXPECT_EQ(ledger->endpoints(), 0U);
  EXPECT_TRUE(refuses(port));
  EXPECT_TRUE(bind_claim({Protocol::Tcp, ip("0.0.0.0"), 30080}));
  EXPECT_TRUE(bind_claim({Protocol::Tcp, ip("0.0.0.0"), port}));
}

TEST_F(LedgerTest, SctpIsAProblemOfTheService) {
  const auto report =
      put(service("default/s").cluster_ip("10.96.0.14").port("s", 80, 0, Protocol::Sctp));
  ASSERT_THAT(report.problems, SizeIs(1));
  EXPECT_EQ(report.problems[0].service, key("default/s"));
  EXPECT_EQ(report.problems[0].text, "SCTP is not supported for user space proxy");
  EXPECT_THAT(proxy_ports(), IsEmpty());
}

TEST_F(LedgerTest, ARestartedLedgerAdoptsItsPorts) {
  put(web().node_port_type().local_external());
  put(dns());
  std::string dump;
  for (const auto& chain : ledger->chains())
    dump += chain.rules;
  const auto before = ledger->chains();
  restart(settings());
  ledger->adopt(AdoptedPorts::parse(dump));
  put(dns());
  put(web().node_port_type().local_external());
  const auto after = ledger->chains();
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(after[i].rules, before[i].rules);
}

TEST_F(LedgerTest, UdpPortalsThatHaveGoneAreRemembered) {
  put(web());
  EXPECT_FALSE(ledger->udp_changed());
  put(dns());
  EXPECT_TRUE(ledger->udp_changed());
  const uint16_t port = proxy_ports().at(0);
  ledger->forget_gone_portals();
  remove("default/dns");
  EXPECT_TRUE(ledger->udp_changed());
  const net::IpAddr client = ip("192.0.2.7");
  EXPECT_TRUE(ledger->flows().stale({.protocol = Protocol::Udp,
                                     .original = {client, ip("10.96.0.11"), 4711, 53},
                                     .reply = {ip("127.0.0.1"), client, port, 4711}}));
  ledger->forget_gone_portals();
  EXPECT_TRUE(ledger->flows().idle());
}

TEST_F(LedgerTest, ConnectionsAreCountedBeyondTheirFront) {
  const auto endpoint = listen_at("127.0.0.2");
  put(web().node_port_type().local_external(), pod("127.0.0.2"));
  for (const uint16_t port : proxy_ports())
    EXPECT_TRUE(leads_to(port, endpoint));
  put(web().node_port_type(), pod("127.0.0.2"));
  const auto counted = ledger->count_connections();
  ASSERT_THAT(counted, SizeIs(1));
  EXPECT_EQ(counted[0].port, "http");
  EXPECT_EQ(counted[0].total, 2U);
}

TEST_F(LedgerTest, OthersThanTheSourceRangesGetNoAnswerFromTheLoadBalancer) {
  const auto endpoint = listen_at("127.0.0.2");
  put(web().load_balancer("1.2.3.4").source_range("203.0.113.0/24"), pod("127.0.0.2"));
  const auto ports = proxy_ports();  // of the cluster IP, the load balancer and the node port
  ASSERT_THAT(ports, SizeIs(3));
  EXPECT_TRUE(leads_to(ports[0], endpoint));
  EXPECT_TRUE(leads_to(ports[2], endpoint));
  EXPECT_FALSE(refuses(ports[0]));
  const base::Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const relay::SocketAddress to(ip("127.0.0.1"), ports[1]);
  EXPECT_EQ(::connect(client.get(), to.get(), to.size()), -1);
  EXPECT_EQ(errno, EINPROGRESS);
  // On one machine an answer would be there already.
  pollfd answer{.fd = client.get(), .events = POLLOUT, .revents = 0};
  EXPECT_EQ(::poll(&answer, 1, 0), 0);
}

}  // namespace
}  // namespace userspace
