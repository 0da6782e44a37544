#include "backend/userspace/claims.h"

#include <gtest/gtest.h>

#include "backend/userspace/test_client.h"
#include "support/builders.h"
#include "support/own_network.h"

namespace userspace {
namespace {

using build::ip;
using net::Protocol;
using ClaimsTest = build::OwnNetwork;

const Place kNodePort{Protocol::Tcp, ip("0.0.0.0"), 30080};
const Place kLocal{Protocol::Udp, ip("127.0.0.1"), 53};
const Claims::Owner kWeb{"default/web:http", Protocol::Tcp};
const Claims::Owner kOther{"default/other", Protocol::Tcp};
const Claims::Owner kDns{"kube-system/dns:dns", Protocol::Udp};

TEST(ClaimNames, AreThoseOfTheSpecification) {
  EXPECT_EQ(str(kNodePort), "<nil>:30080/TCP");
  EXPECT_EQ(str(kLocal), "127.0.0.1:53/UDP");
  EXPECT_EQ(str({Protocol::Tcp, ip("fd00::1"), 80}), "[fd00::1]:80/TCP");
}

TEST_F(ClaimsTest, AnOwnerMayTakeItsPlaceAgain) {
  Claims claims;
  const auto taken = claims.take(kNodePort, kWeb);
  ASSERT_TRUE(taken) << taken.error().text;
  EXPECT_TRUE(claims.take(kNodePort, kWeb));
  EXPECT_TRUE(claims.take(kLocal, kDns));
}

TEST_F(ClaimsTest, AnotherOwnerIsAConflict) {
  Claims claims;
  ASSERT_TRUE(claims.take(kNodePort, kWeb));
  const auto conflict = claims.take(kNodePort, kOther);
  ASSERT_FALSE(conflict);
  EXPECT_EQ(conflict.error().text,
            "Port conflict detected on port <nil>:30080/TCP.  default/other vs default/web:http");
}

TEST_F(ClaimsTest, APortOfAnotherProcessCannotBeHad) {
  const auto somebody = bind_front(kNodePort);
  ASSERT_TRUE(somebody && serve(somebody->get(), kNodePort));
  Claims claims;
  const auto taken = claims.take(kNodePort, kWeb);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().text,
            "can't open node port for <nil>:30080/TCP: listen tcp 0.0.0.0:30080: address already "
            "in use");
}

TEST_F(ClaimsTest, WhatIsGivenUpIsFree) {
  Claims claims;
  const Place second{Protocol::Tcp, ip("127.0.0.1"), 80};
  ASSERT_TRUE(claims.take(kNodePort, kWeb));
  ASSERT_TRUE(claims.take(second, kWeb));
  claims.keep_only({second}, kWeb);
  EXPECT_TRUE(claims.take(kNodePort, kOther));
  EXPECT_FALSE(claims.take(second, kOther));
  claims.keep_only({}, kDns);
}

}  // namespace
}  // namespace userspace
