#include "daemon/backends.h"

#include <gtest/gtest.h>

namespace proxyd {
namespace {

TEST(RelayDescriptors, LeaveSomeToTheRestOfTheProcess) {
  EXPECT_EQ(relay_descriptors(64000), 56000U);
  EXPECT_EQ(relay_descriptors(1024), 768U);
  EXPECT_EQ(relay_descriptors(400), 200U) << "too few for both";
}

}  // namespace
}  // namespace proxyd
