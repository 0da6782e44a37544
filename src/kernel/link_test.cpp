#include "kernel/link.h"

#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/process.h"
#include "support/own_network.h"

namespace kernel {
namespace {

using base::ErrorCode;
using net::Family;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
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

TEST_F(LinkTest, ADeviceThatIsThereIsTakenAsItIs) {
  EXPECT_EQ(ensure_link("lo", "dummy").value_or(0), ::if_nametoindex("lo"));
}

TEST_F(LinkTest, ADeviceOfAnUnknownKindIsUnsupported) {
  const auto made = ensure_link("kp0", "unheard-of");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::Unsupported);
  EXPECT_EQ(made.error().text,
            "make network device kp0: this kernel has no unheard-of devices (module unheard-of)");
}

TEST_F(LinkTest, ADummyIsMadeOnceAndStaysDown) {
  const auto made = ensure_link("kube-ipvs0", "dummy");
  if (!made && made.error().code == ErrorCode::Unsupported)
    GTEST_SKIP() << "needs dummy devices: " << made.error().text;
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(*made, ::if_nametoindex("kube-ipvs0"));
  EXPECT_EQ(ensure_link("kube-ipvs0", "dummy").value_or(0), *made);
  const auto shown = run({.argv = {"ip", "-o", "link", "show", "kube-ipvs0"}});
  ASSERT_TRUE(shown);
  EXPECT_THAT(shown->out, HasSubstr("state DOWN"));
  EXPECT_TRUE(delete_link("kube-ipvs0", "dummy"));
}

net::IpAddr ip(const char* text) { return *net::IpAddr::parse(text); }

// Addresses of a device without carrier, as kube-ipvs0 is one.
class AddressTest : public LinkTest {
 protected:
  void SetUp() override {
    LinkTest::SetUp();
    if (IsSkipped()) return;
    device_ = ensure_link("kp0", "veth").value_or(0);
    if (device_ == 0) GTEST_SKIP() << "needs veth devices";
  }

  static DeviceAddresses addresses(Family family) {
    auto opened = DeviceAddresses::open(family);
    EXPECT_TRUE(opened);
    return std::move(*opened);
  }
  static AddressNews news(Family family) {
    auto opened = AddressNews::open(family);
    EXPECT_TRUE(opened);
    return std::move(*opened);
  }
  // "+10.0.0.1", "-10.0.0.1", of our device.
  std::vector<std::string> drained(AddressNews& news) const {
    const auto heard = news.drain();
    if (!heard) return {heard.error().text};
    std::vector<std::string> found;
    for (const auto& [address, gone] : *heard)
      if (address.device == device_) found.push_back((gone ? "-" : "+") + address.ip.str());
    return found;
  }

  unsigned device_ = 0;
};

TEST_F(AddressTest, ComeAndGoWithTheFullLengthOfTheirPrefix) {
  for (const auto& [family, first, second, text] :
       {std::tuple(Family::V4, ip("10.96.0.1"), ip("10.96.0.2"), "inet 10.96.0.1/32 scope global"),
        std::tuple(Family::V6, ip("fd00::1"), ip("fd00::2"), "inet6 fd00::1/128 scope global")}) {
    auto ours = addresses(family);
    EXPECT_THAT(ours.change(device_, {first, second}, {}).value(), IsEmpty());
    EXPECT_THAT(ours.list().value(),
                IsSupersetOf({DeviceAddress{device_, first}, DeviceAddress{device_, second}}));
    const auto shown = run({.argv = {"ip", "-o", "address", "show", "dev", "kp0"}});
    ASSERT_TRUE(shown);
    EXPECT_THAT(shown->out, HasSubstr(text));
    EXPECT_THAT(ours.change(device_, {}, {second}).value(), IsEmpty());
    EXPECT_THAT(ours.list().value(), Not(Contains(DeviceAddress{device_, second})));
  }
}

TEST_F(AddressTest, WhatIsThereAlreadyOrGoneAlreadyIsNoFailure) {
  for (const auto& [family, address] :
       {std::pair(Family::V4, ip("10.96.0.1")), std::pair(Family::V6, ip("fd00::1"))}) {
    auto ours = addresses(family);
    EXPECT_THAT(ours.change(device_, {address, address}, {}).value(), IsEmpty());
    EXPECT_THAT(ours.change(device_, {}, {address, address}).value(), IsEmpty());
    EXPECT_THAT(ours.change(device_ + 100, {}, {address}).value(), IsEmpty());
  }
}

TEST_F(AddressTest, WhatFailsIsToldAndTheRestHappens) {
  auto ours = addresses(Family::V6);
  const auto failures = ours.change(device_, {ip("fd00::1"), ip("ff02::5"), ip("fd00::2")}, {});
  ASSERT_TRUE(failures) << failures.error().text;
  ASSERT_EQ(failures->size(), 1U);
  EXPECT_EQ(failures->front().ip, ip("ff02::5"));
  EXPECT_EQ(failures->front().number, EADDRNOTAVAIL);
  EXPECT_THAT(ours.list().value(), Contains(DeviceAddress{device_, ip("fd00::2")}));
}

TEST_F(AddressTest, OfOnePointToAnotherOursIsListed) {
  const auto made =
      run({.argv = {"ip", "address", "add", "10.1.0.1", "peer", "10.1.0.2", "dev", "kp0"}});
  if (!made || !made->ok()) GTEST_SKIP() << "needs the program ip";
  EXPECT_THAT(
      addresses(Family::V4).list().value(),
      ElementsAre(DeviceAddress{1, ip("127.0.0.1")}, DeviceAddress{device_, ip("10.1.0.1")}));
}

TEST_F(AddressTest, NewsIsHeardOfItsFamilyOnly) {
  auto four = news(Family::V4);
  auto six = news(Family::V6);
  EXPECT_THAT(drained(four), IsEmpty());
  auto ours = addresses(Family::V4);
  ASSERT_TRUE(ours.change(device_, {ip("10.96.0.1"), ip("10.96.0.2")}, {ip("10.96.0.1")}));
  ASSERT_TRUE(addresses(Family::V6).change(device_, {ip("fd00::1")}, {}));
  pollfd waiting{.fd = four.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 1);
  EXPECT_THAT(drained(four), ElementsAre("+10.96.0.1", "+10.96.0.2", "-10.96.0.1"));
  EXPECT_THAT(drained(four), IsEmpty());
  EXPECT_THAT(drained(six), ElementsAre("+fd00::1"));
}

TEST_F(AddressTest, NewsThatDoesNotFitIsLostAndHeardAgainAfterwards) {
  auto heard = news(Family::V4);
  const int tiny = 4096;
  ASSERT_EQ(::setsockopt(heard.fd(), SOL_SOCKET, SO_RCVBUF, &tiny, sizeof tiny), 0);
  std::vector<net::IpAddr> many;
  for (uint32_t i = 1; i <= 200; ++i)
    many.push_back(net::IpAddr::v4(0x0a600000 + i));
  auto ours = addresses(Family::V4);
  ASSERT_TRUE(ours.change(device_, many, {}));
  const auto drained_once = heard.drain();
  ASSERT_FALSE(drained_once);
  EXPECT_EQ(drained_once.error().code, ErrorCode::Lost);
  ASSERT_TRUE(ours.change(device_, {ip("10.97.0.1")}, {}));
  EXPECT_THAT(drained(heard), ElementsAre("+10.97.0.1"));
}

}  // namespace
}  // namespace kernel
