#include "relay/balancer.h"

#include <map>
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "support/builders.h"

namespace relay {
namespace {

using build::ip;
using std::chrono::milliseconds;
using std::chrono::seconds;

const net::IpAddr kClient = ip("10.0.0.7");
const net::IpAddr kOther = ip("10.0.0.8");
const Time kStart = Time() + std::chrono::hours(1);

TargetPtr target(uint16_t port) { return std::make_shared<Target>(ip("10.1.0.1"), port); }

std::vector<TargetPtr> targets(uint16_t count) {
  std::vector<TargetPtr> out;
  for (uint16_t port = 1; port <= count; ++port)
    out.push_back(target(port));
  return out;
}

// The ports that clients get one after the other.
std::string ports(Balancer& balancer, int count, const net::IpAddr& client = kClient) {
  std::string out;
  for (int i = 0; i < count; ++i)
    out += std::to_string(balancer.next(client, false, kStart)->port());
  return out;
}

TEST(Balancer, GivesEachInTurn) {
  Balancer balancer(targets(3), nullptr);
  EXPECT_EQ(ports(balancer, 7), "1231231");
}

TEST(Balancer, GivesNothingIfThereIsNothing) {
  EXPECT_EQ(Balancer({}, nullptr).next(kClient, false, kStart), nullptr);
  EXPECT_EQ(Balancer({}, std::make_shared<Affinities>(seconds(10))).next(kClient, false, kStart),
            nullptr);
}

TEST(Balancer, KnowsWhatItOffers) {
  const Balancer balancer(targets(20), nullptr);
  for (const TargetPtr& each : balancer.targets())
    EXPECT_TRUE(balancer.offers(*each));
  EXPECT_FALSE(balancer.offers(*target(1)));
}

TEST(Balancer, SharesEquallyBetweenThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 3000;
  Balancer balancer(targets(3), nullptr);
  std::array<std::map<uint16_t, int>, kThreads> counts;
  {
    std::vector<std::jthread> threads;
    for (auto& count : counts) {
      threads.emplace_back([&] {
        for (int i = 0; i < kEach; ++i)
          ++count[balancer.next(kClient, false, kStart)->port()];
      });
    }
  }
  std::map<uint16_t, int> total;
  for (const auto& count : counts) {
    for (const auto& [port, times] : count)
      total[port] += times;
  }
  EXPECT_EQ(total, (std::map<uint16_t, int>{{1, 4000}, {2, 4000}, {3, 4000}}));
}

struct Sticky {
  std::shared_ptr<Affinities> affinities = std::make_shared<Affinities>(seconds(10));
  Balancer balancer{targets(3), affinities};

  uint16_t port(const net::IpAddr& client, Time now, bool fresh = false) {
    return balancer.next(client, fresh, now)->port();
  }
};

TEST(Affinity, AClientStaysWhereItWas) {
  Sticky with;
  EXPECT_EQ(ports(with.balancer, 3), "111");
  EXPECT_EQ(ports(with.balancer, 3, kOther), "222");
  EXPECT_EQ(ports(with.balancer, 3), "111");
}

TEST(Affinity, EveryUseBeginsTheTimeAnew) {
  Sticky with;
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(with.port(kClient, kStart + i * seconds(9)), 1);
}

TEST(Affinity, EndsWithItsTime) {
  Sticky with;
  EXPECT_EQ(with.port(kClient, kStart), 1);
  EXPECT_EQ(with.port(kClient, kStart + milliseconds(9999)), 1);
  EXPECT_EQ(with.port(kClient, kStart + milliseconds(19999)), 2);
}

TEST(Affinity, ANewTimeToLiveCountsForOldRecordsToo) {
  Sticky with;
  EXPECT_EQ(with.port(kClient, kStart), 1);
  with.affinities->set_ttl(seconds(20));
  EXPECT_EQ(with.port(kClient, kStart + seconds(19)), 1);
  with.affinities->set_ttl(seconds(5));
  EXPECT_EQ(with.port(kClient, kStart + seconds(24)), 2);
}

TEST(Affinity, WhoAsksAfreshGetsTheNextAndStaysThere) {
  Sticky with;
  EXPECT_EQ(with.port(kClient, kStart), 1);
  EXPECT_EQ(with.port(kClient, kStart, true), 2);
  EXPECT_EQ(with.port(kClient, kStart), 2);
}

TEST(Affinity, AnEndpointThatDoesNotAnswerIsForgotten) {
  Sticky with;
  const TargetPtr first = with.balancer.next(kClient, false, kStart);
  with.balancer.does_not_answer(first, kClient);
  EXPECT_EQ(with.port(kClient, kStart), 2);
  with.balancer.does_not_answer(first, kClient);  // late: the client has another one by now
  EXPECT_EQ(with.port(kClient, kStart), 2);
}

TEST(Affinity, OutlivesTheListIfTheEndpointIsInTheNextOne) {
  Sticky with;
  EXPECT_EQ(with.port(kClient, kStart), 1);
  const auto& before = with.balancer.targets();
  Balancer kept({before[2], before[0]}, with.affinities);
  EXPECT_EQ(ports(kept, 2), "11");
  Balancer lost({before[2], before[1]}, with.affinities);
  EXPECT_EQ(ports(lost, 2), "33");
}

TEST(Affinity, StaleRecordsAreDropped) {
  Sticky with;
  const TargetPtr first = with.balancer.next(kClient, false, kStart);
  with.balancer.next(kOther, false, kStart + seconds(5));
  with.balancer.next(ip("fd00::1"), false, kStart + seconds(5));
  EXPECT_EQ(with.affinities->size(), 3U);
  with.affinities->forget_stale(kStart + seconds(10));
  EXPECT_EQ(with.affinities->size(), 2U);
  with.balancer.targets()[1]->leave(Time::max());
  with.affinities->forget_stale(kStart + seconds(10));
  EXPECT_EQ(with.affinities->size(), 1U);
}

TEST(Affinity, ConnectionsThatAClientOpensAllAtOnceMeet) {
  for (int round = 0; round < 50; ++round) {
    Sticky with;
    std::array<uint16_t, 4> got{};
    {
      std::vector<std::jthread> threads;
      for (uint16_t& port : got)
        threads.emplace_back([&] { port = with.port(kClient, kStart); });
    }
    EXPECT_EQ(std::set<uint16_t>(got.begin(), got.end()).size(), 1U);
  }
}

// Somebody may come from a great many addresses, if only to fill the memory of the node.
TEST(Affinity, KeepsThoseWhoComeOftenInAFlood) {
  constexpr uint32_t kMost = 1000;
  const auto affinities = std::make_shared<Affinities>(seconds(10), kMost);
  Balancer balancer(targets(3), affinities);
  EXPECT_EQ(ports(balancer, 1), "1");
  for (uint32_t i = 0; i < 10 * kMost; ++i) {
    balancer.next(net::IpAddr::v4(0x40000000 + i), false, kStart);
    ASSERT_LE(affinities->size(), kMost);
    if (i % (kMost / 4) == 0) {
      ASSERT_EQ(ports(balancer, 1), "1");
    }
  }
  EXPECT_GE(affinities->size(), kMost / 2);
}

TEST(IpHash, DiffersFromOneTableToTheNext) {
  EXPECT_NE(IpHash()(kClient), IpHash()(kClient));
  const IpHash hash;
  EXPECT_EQ(hash(kClient), hash(kClient));
  EXPECT_NE(hash(kClient), hash(kOther));
  EXPECT_NE(hash(kClient, 1), hash(kClient, 2));
}

}  // namespace
}  // namespace relay
