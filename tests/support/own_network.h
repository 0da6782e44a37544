// A network namespace of its own for a test, with loopback up.
#pragma once

#include <fcntl.h>
#include <linux/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>

#include <gtest/gtest.h>

#include "base/fd.h"

namespace build {

// The thread moves there for the length of the test.
class OwnNetwork : public testing::Test {
 protected:
  void SetUp() override {
    if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "needs the right to make network namespaces";
    const base::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq loopback{};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP;
    ASSERT_EQ(::ioctl(socket.get(), SIOCSIFFLAGS, &loopback), 0);
  }
  void TearDown() override { ASSERT_EQ(setns(home_.get(), CLONE_NEWNET), 0); }

 private:
  base::Fd home_{::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)};
};

}  // namespace build
