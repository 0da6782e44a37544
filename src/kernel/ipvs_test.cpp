#include "kernel/ipvs.h"

#include <gtest/gtest.h>

#include "support/own_network.h"

namespace kernel {
namespace {

using IpvsTest = build::OwnNetwork;

TEST_F(IpvsTest, IsThereOrUnsupported) {
  const auto ipvs = Ipvs::open();
  if (!ipvs) {
    EXPECT_EQ(ipvs.error().code, base::ErrorCode::Unsupported) << ipvs.error().text;
  }
}

TEST_F(IpvsTest, FlushingNothingIsNoError) {
  auto ipvs = Ipvs::open();
  if (!ipvs) GTEST_SKIP() << ipvs.error().text;
  const auto done = ipvs->flush();
  EXPECT_TRUE(done) << done.error().text;
}

}  // namespace
}  // namespace kernel
