#include "relay/front.h"

#include <gtest/gtest.h>

#include "support/builders.h"

namespace relay {
namespace {

using build::ip;

std::shared_ptr<Balancer> some_list() {
  return std::make_shared<Balancer>(std::vector<TargetPtr>(), nullptr);
}

struct Fixture {
  bool asked = false;
  Front front{{.is_local = [this](const net::IpAddr& client) {
    asked = true;
    return client == ip("10.0.0.1");
  }}};
};

TEST(Front, OffersNothingAtFirst) {
  EXPECT_EQ(Fixture().front.choose(ip("10.0.0.1")).balancer, nullptr);
}

TEST(Front, ClientsOnThisNodeMayGetAnotherList) {
  Fixture with;
  const auto all = some_list();
  const auto local = some_list();
  with.front.offer({.balancer = all, .for_local = local});
  EXPECT_EQ(with.front.choose(ip("10.0.0.1")).balancer, local);
  EXPECT_EQ(with.front.choose(ip("10.0.0.2")).balancer, all);
}

TEST(Front, OthersMayGetNothing) {
  Fixture with;
  const auto local = some_list();
  with.front.offer({.for_local = local});
  EXPECT_EQ(with.front.choose(ip("10.0.0.1")).balancer, local);
  EXPECT_EQ(with.front.choose(ip("10.0.0.2")).balancer, nullptr);
}

TEST(Front, DoesNotAskWhoIsLocalIfAllGetTheSame) {
  Fixture with;
  const auto all = some_list();
  for (const Offer& offer : {Offer{.balancer = all}, Offer{.balancer = all, .for_local = all}}) {
    with.front.offer(offer);
    EXPECT_EQ(with.front.choose(ip("10.0.0.1")).balancer, all);
  }
  EXPECT_FALSE(with.asked);
}

TEST(Front, PassesOnWhetherTheEndpointIsToldWhoComes) {
  Fixture with;
  with.front.offer({.balancer = some_list(), .proxy_protocol = true});
  EXPECT_TRUE(with.front.choose(ip("10.0.0.1")).proxy_protocol);
}

TEST(Front, EveryOfferHasItsNumber) {
  Fixture with;
  const uint64_t before = with.front.offers_made();
  with.front.offer({});
  EXPECT_NE(with.front.offers_made(), before);
}

}  // namespace
}  // namespace relay
