#include "kernel/link.h"

#include <net/if.h>

#include <gtest/gtest.h>

#include "kernel/process.h"
#include "support/own_network.h"

namespace kernel {
namespace {

using base::ErrorCode;
using LinkTest = build::OwnNetwork;

TEST_F(LinkTest, ADeviceThatIsNotThereIsNotFound) {
  const auto done = delete_link("no-such-device", "dummy");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::NotFound);
}

TEST_F(LinkTest, ADeviceOfAnotherKindStays) {
  const auto done = delete_link("lo", "dummy");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::Invalid);
  EXPECT_EQ(done.error().text, "network device lo: expect dummy device, got device type: device");
}

TEST_F(LinkTest, ADeviceOfTheKindGoes) {
  const auto made =
      run({.argv = {"ip", "link", "add", "kp0", "type", "veth", "peer", "name", "kp1"}});
  if (!made || !made->ok()) GTEST_SKIP() << "needs the program ip, and veth devices";
  const auto done = delete_link("kp0", "veth");
  EXPECT_TRUE(done) << done.error().text;
  EXPECT_EQ(::if_nametoindex("kp0"), 0U);
}

}  // namespace
}  // namespace kernel
