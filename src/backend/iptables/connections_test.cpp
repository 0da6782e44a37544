#include "backend/iptables/connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/iptables/rules.h"
#include "support/builders.h"

namespace iptables {
namespace {

using build::key;
using build::service;
using testing::ElementsAre;
using testing::IsEmpty;

class Connections : public testing::Test {
 protected:
  Connections() {
    store_.fold(service("a/web").cluster_ip("10.96.0.1").port("http", 80).port("", 81).ptr());
  }
  static std::string chain(const char* prefix, const char* port) {
    return prefix + std::string(codec::view(port_hash(port, net::Protocol::Tcp)));
  }
  // A dump in which the rules of the port's chain have counted so many packets.
  static std::string dump(const char* port, int cluster, int local = 0) {
    const std::string rest = " -m comment --comment \"x -> y\" -j KUBE-SEP-AAAABBBBCCCCDDDD\n";
    return "*nat\n:KUBE-SERVICES - [0:0]\n"
           "[99:5940] -A KUBE-SERVICES -j " +
           chain("KUBE-SVC-", port) + "\n" + "[" + std::to_string(cluster) + ":0] -A " +
           chain("KUBE-SVC-", port) + rest + "[" + std::to_string(local) + ":0] -A " +
           chain("KUBE-SVL-", port) + rest + "[7:420] -A " + chain("KUBE-SVC-", port) +
           " -j KUBE-MARK-MASQ\nCOMMIT\n";
  }
  std::vector<uint64_t> totals(const std::string& text) {
    ConnectionReader reader;
    for (size_t at = 0; at < text.size(); at += 11)
      reader.feed(std::string_view(text).substr(at, 11));
    std::vector<uint64_t> out;
    for (const auto& port : counted_.add(reader.finish(), *store_.snapshot(), net::Family::V4))
      out.push_back(port.total);
    return out;
  }

  model::Store store_{"node1"};
  ConnectionTotals counted_;
};

TEST_F(Connections, AreThePacketsThatGoOnToEndpoints) {
  EXPECT_THAT(totals(dump("a/web:http", 5, 2)), ElementsAre(7, 0));
  EXPECT_THAT(totals(dump("a/web:http", 6, 2)), ElementsAre(8, 0));
}

TEST_F(Connections, GoOnWhenAChainIsWrittenAnew) {
  EXPECT_THAT(totals(dump("a/web:http", 5)), ElementsAre(5, 0));
  EXPECT_THAT(totals(dump("a/web:http", 2)), ElementsAre(7, 0));
  EXPECT_THAT(totals("*nat\nCOMMIT\n"), ElementsAre(7, 0));
}

TEST_F(Connections, OfADeletedServiceAreForgotten) {
  EXPECT_THAT(totals(dump("a/web:http", 5)), ElementsAre(5, 0));
  store_.fold(model::ServiceDeleted{key("a/web")});
  EXPECT_THAT(totals(dump("a/web:http", 5)), IsEmpty());
}

TEST_F(Connections, ADumpThatMakesNoSenseCountsNothing) {
  EXPECT_THAT(
      totals("[x:1] -A KUBE-SVC-A -j KUBE-SEP-B\n[1\n[5:5] -A KUBE-SVC-SHORT -j KUBE-SEP-X"),
      ElementsAre(0, 0));
}

}  // namespace
}  // namespace iptables
