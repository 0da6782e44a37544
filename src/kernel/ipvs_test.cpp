#include "kernel/ipvs.h"

#include <linux/ip_vs.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/ipvs_message.h"
#include "support/own_network.h"

namespace kernel {
namespace {

using base::ErrorCode;
using net::Family;
using net::Protocol;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

net::IpAddr ip(const char* text) { return *net::IpAddr::parse(text); }

VirtualServer server(const char* address, uint16_t port, const char* scheduler = "rr") {
  return {.key = {.ip = ip(address), .port = port}, .scheduler = scheduler};
}

TEST(ServerKey, IsWrittenAsInKubernetes) {
  EXPECT_EQ((ServerKey{ip("10.96.0.1"), 443, Protocol::Tcp}).str(), "10.96.0.1:443/TCP");
  EXPECT_EQ((ServerKey{ip("fd00::1"), 5060, Protocol::Sctp}).str(), "[fd00::1]:5060/SCTP");
}

// What is written is what is read.
TEST(IpvsMessage, ReadsWhatIsWritten) {
  for (const auto* address : {"10.96.0.1", "fd00::1"}) {
    const VirtualServer written{.key = {ip(address), 53, Protocol::Udp},
                                .scheduler = "mh",
                                .flags = VirtualServer::kPersistent | VirtualServer::kHashesPort,
                                .timeout_s = 600};
    const RealServer real{ip(address), 8080, 7};
    netlink::Message message;
    nlmsghdr* header = put_generic(message.add(0, 0), IPVS_CMD_NEW_DEST, IPVS_GENL_VERSION);
    put_server(header, written);
    put_real_server(header, real);
    EXPECT_EQ(decode_server(*header), written);
    const auto state = decode_real_server(*header, written.key.ip.family());
    ASSERT_TRUE(state);
    EXPECT_EQ(state->server, real);
    EXPECT_EQ(state->active, 0U);
  }
}

TEST(IpvsMessage, WhatIsNotWholeIsNothing) {
  netlink::Message message;
  nlmsghdr* header = put_generic(message.add(0, 0), IPVS_CMD_NEW_SERVICE, IPVS_GENL_VERSION);
  EXPECT_FALSE(decode_server(*header));
  EXPECT_FALSE(decode_real_server(*header, Family::V4));
  put_server(header, ServerKey{ip("10.96.0.1"), 80, Protocol::Tcp});
  EXPECT_FALSE(decode_server(*header));
}

// A network namespace that has IPVS.
class IpvsTest : public build::OwnNetwork {
 protected:
  void SetUp() override {
    OwnNetwork::SetUp();
    if (IsSkipped()) return;
    auto opened = Ipvs::open();
    if (!opened) GTEST_SKIP() << "needs IPVS: " << opened.error().text;
    ipvs_.emplace(std::move(*opened));
  }

  // "PLACE:NUMBER" of those that failed.
  std::vector<std::string> apply(Ipvs::Changes changes) {
    const auto failures = ipvs_->apply(std::move(changes));
    if (!failures) return {failures.error().text};
    std::vector<std::string> found;
    for (const auto& failure : *failures)
      found.push_back(std::to_string(failure.place) + ":" + std::to_string(failure.number));
    return found;
  }

  std::vector<VirtualServer> servers(Family family) {
    const auto found = ipvs_->servers(family);
    EXPECT_TRUE(found);
    return found.value_or(std::vector<VirtualServer>{});
  }

  std::vector<RealServer> reals(const VirtualServer& of) {
    const auto found = ipvs_->real_servers(of.key);
    if (!found) return {{ip("0.0.0.0"), 0, 0}};
    std::vector<RealServer> servers;
    for (const auto& state : *found)
      servers.push_back(state.server);
    return servers;
  }

  std::optional<Ipvs> ipvs_;
};

TEST(Ipvs, IsThereOrTheErrorSaysWhatToDo) {
  const auto ipvs = Ipvs::open();
  if (ipvs) return;
  EXPECT_EQ(ipvs.error().code, ErrorCode::Unsupported);
  EXPECT_EQ(ipvs.error().text,
            "this kernel has no IPVS; load it on the host with `modprobe ip_vs`");
}

TEST_F(IpvsTest, FlushesAllThereIs) {
  EXPECT_TRUE(ipvs_->flush());
  Ipvs::Changes changes;
  changes.add(server("10.96.0.1", 80));
  changes.add(server("fd00::1", 80));
  EXPECT_THAT(apply(std::move(changes)), IsEmpty());
  EXPECT_TRUE(ipvs_->flush());
  EXPECT_THAT(servers(Family::V4), IsEmpty());
  EXPECT_THAT(servers(Family::V6), IsEmpty());
}

TEST_F(IpvsTest, ListsTheServersOfAFamilyAsTheyWereAdded) {
  VirtualServer sticky = server("10.96.0.2", 53, "wrr");
  sticky.key.protocol = Protocol::Udp;
  sticky.flags = VirtualServer::kPersistent;
  sticky.timeout_s = 10800;
  VirtualServer six = server("fd00:10:96::1", 443);
  six.key.protocol = Protocol::Sctp;
  six.flags = VirtualServer::kPersistent;
  six.timeout_s = 1;
  Ipvs::Changes changes;
  changes.add(server("10.96.0.1", 80));
  changes.add(sticky);
  changes.add(six);
  EXPECT_THAT(apply(std::move(changes)), IsEmpty());
  EXPECT_THAT(servers(Family::V4), UnorderedElementsAre(server("10.96.0.1", 80), sticky));
  EXPECT_THAT(servers(Family::V6), ElementsAre(six));
}

TEST_F(IpvsTest, AServerIsUpdatedInPlaceAndRemoved) {
  const RealServer pod{ip("10.244.1.1"), 8080, 1};
  Ipvs::Changes changes;
  changes.add(server("10.96.0.1", 80));
  changes.add(server("10.96.0.1", 80).key, pod);
  VirtualServer other = server("10.96.0.1", 80, "sh");
  other.flags = VirtualServer::kPersistent;
  other.timeout_s = 300;
  changes.update(other);
  EXPECT_THAT(apply(std::move(changes)), IsEmpty());
  EXPECT_THAT(servers(Family::V4), ElementsAre(other));
  EXPECT_THAT(reals(other), ElementsAre(pod));

  Ipvs::Changes removal;
  removal.remove(other.key);
  EXPECT_THAT(apply(std::move(removal)), IsEmpty());
  EXPECT_THAT(servers(Family::V4), IsEmpty());
}

TEST_F(IpvsTest, RealServersComeAndGoAndChangeTheirWeight) {
  for (const auto* address : {"10.96.0.1", "fd00::1"}) {
    const bool v4 = ip(address).family() == Family::V4;
    const VirtualServer front = server(address, 80);
    RealServer one{ip(v4 ? "10.244.1.1" : "fd00:1::1"), 8080, 1};
    const RealServer two{ip(v4 ? "10.244.1.2" : "fd00:1::2"), 8080, 65535};
    Ipvs::Changes changes;
    changes.add(front);
    changes.add(front.key, one);
    changes.add(front.key, two);
    EXPECT_THAT(apply(std::move(changes)), IsEmpty());
    EXPECT_THAT(reals(front), UnorderedElementsAre(one, two));

    one.weight = 0;
    Ipvs::Changes more;
    more.update(front.key, one);
    more.remove(front.key, two);
    EXPECT_THAT(apply(std::move(more)), IsEmpty());
    EXPECT_THAT(reals(front), ElementsAre(one));
  }
}

TEST_F(IpvsTest, NoServerIsToldFromAServerWithoutRealOnes) {
  const VirtualServer front = server("10.96.0.1", 80);
  const auto missing = ipvs_->real_servers(front.key);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::NotFound) << missing.error().text;
  Ipvs::Changes changes;
  changes.add(front);
  EXPECT_THAT(apply(std::move(changes)), IsEmpty());
  EXPECT_THAT(reals(front), IsEmpty());
}

TEST_F(IpvsTest, AChangeThatFailsIsToldAndTheOthersHappen) {
  const VirtualServer front = server("10.96.0.1", 80);
  const RealServer pod{ip("10.244.1.1"), 8080, 1};
  Ipvs::Changes changes;
  changes.add(front.key, pod);
  changes.add(front);
  changes.add(front);
  changes.remove(front.key, pod);
  changes.add(front.key, pod);
  changes.add(front.key, pod);
  changes.remove(server("10.96.0.9", 80).key);
  changes.add(server("10.96.0.2", 80, "unheard-of"));
  EXPECT_THAT(apply(std::move(changes)),
              ElementsAre("0:" + std::to_string(ESRCH), "2:" + std::to_string(EEXIST),
                          "3:" + std::to_string(ENOENT), "5:" + std::to_string(EEXIST),
                          "6:" + std::to_string(ESRCH), "7:" + std::to_string(ENOENT)));
  EXPECT_THAT(reals(front), ElementsAre(pod));
}

TEST_F(IpvsTest, ManyServersAreWrittenAndReadBack) {
  Ipvs::Changes changes;
  for (uint32_t i = 0; i < 1000; ++i) {
    VirtualServer front = server("10.96.0.1", 80);
    front.key.ip = net::IpAddr::v4(0x0a600001 + i);
    changes.add(front);
    for (uint32_t j = 0; j < 3; ++j)
      changes.add(front.key, RealServer{net::IpAddr::v4(0x0af40001 + j), 8080, 1});
  }
  EXPECT_EQ(changes.size(), 4000U);
  EXPECT_THAT(apply(std::move(changes)), IsEmpty());
  EXPECT_GE(ipvs_->sent(), 4000U);
  // The kernel tells of fewer while it takes down the namespace of the test before.
  size_t listed = 0;
  for (int attempt = 0; attempt < 100 && listed != 1000; ++attempt)
    listed = servers(Family::V4).size();
  EXPECT_EQ(listed, 1000U);
  VirtualServer last = server("10.96.0.1", 80);
  last.key.ip = net::IpAddr::v4(0x0a600001 + 999);
  EXPECT_EQ(reals(last).size(), 3U);
}

TEST_F(IpvsTest, KnowsTheKernelsSchedulersAndLeavesNothingBehind) {
  EXPECT_TRUE(ipvs_->has_scheduler("rr").value_or(false));
  EXPECT_TRUE(ipvs_->has_scheduler("mh").value_or(false));
  EXPECT_FALSE(ipvs_->has_scheduler("unheard-of").value_or(true));
  EXPECT_FALSE(ipvs_->has_scheduler("").value_or(true));
  EXPECT_FALSE(ipvs_->has_scheduler("none").value_or(true));
  EXPECT_FALSE(ipvs_->has_scheduler("longer-than-the-kernel-likes").value_or(true));
  EXPECT_THAT(servers(Family::V4), IsEmpty());
}

TEST_F(IpvsTest, AProbeThatWasLeftBehindIsNoObstacle) {
  Ipvs::Changes changes;
  changes.add(server("198.51.100.0", 20000));
  EXPECT_THAT(apply(std::move(changes)), IsEmpty());
  EXPECT_FALSE(ipvs_->has_scheduler("unheard-of").value_or(true));
  EXPECT_TRUE(ipvs_->has_scheduler("wrr").value_or(false));
  EXPECT_THAT(servers(Family::V4), IsEmpty());
}

TEST_F(IpvsTest, SetsTimeouts) {
  const auto done = ipvs_->set_timeouts({.tcp = 901, .tcp_fin = 0, .udp = 301});
  EXPECT_TRUE(done) << done.error().text;
}

}  // namespace
}  // namespace kernel
