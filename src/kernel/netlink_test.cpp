#include "kernel/netlink.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/netlink_values.h"
#include "support/own_network.h"

namespace kernel::netlink {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using NetlinkTest = build::OwnNetwork;

// Adds an address of loopback's, which has the device number 1, or of no device.
void append_address(Requests& requests, uint32_t address, unsigned device = 1) {
  nlmsghdr* header = requests.add(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
  auto* message = static_cast<ifaddrmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(ifaddrmsg)));
  message->ifa_family = AF_INET;
  message->ifa_prefixlen = 32;
  message->ifa_index = device;
  put_address(header, IFA_LOCAL, net::IpAddr::v4(address));
  requests.close(header);
}

Conversation conversation() {
  auto opened = Conversation::open(NETLINK_ROUTE);
  EXPECT_TRUE(opened);
  return std::move(*opened);
}

std::vector<std::pair<size_t, int>> pairs(
    const base::Result<std::vector<RequestFailure>>& failures) {
  if (!failures) return {{0, -1}};
  std::vector<std::pair<size_t, int>> found;
  for (const auto& failure : *failures)
    found.emplace_back(failure.place, failure.number);
  return found;
}

TEST_F(NetlinkTest, NothingToSendIsNothingSent) {
  auto kernel = conversation();
  EXPECT_THAT(pairs(kernel.send_all({}, "nothing")), IsEmpty());
  EXPECT_EQ(kernel.sent(), 0U);
}

TEST_F(NetlinkTest, TellsWhichRequestsFailedAndTheOthersHappen) {
  auto kernel = conversation();
  Requests requests;
  append_address(requests, 0x0a000001);
  append_address(requests, 0x0a000001);
  append_address(requests, 0x0a000002, 12345);
  append_address(requests, 0x0a000003);
  EXPECT_THAT(pairs(kernel.send_all(requests, "first")),
              ElementsAre(std::pair(1, EEXIST), std::pair(2, ENODEV)));
  EXPECT_THAT(pairs(kernel.send_all(requests, "again")),
              ElementsAre(std::pair(0, EEXIST), std::pair(1, EEXIST), std::pair(2, ENODEV),
                          std::pair(3, EEXIST)));
  EXPECT_EQ(kernel.sent(), 8U);
}

TEST_F(NetlinkTest, ThousandsOfRequestsAreSentInPiecesEvenIfAllOfThemFail) {
  auto kernel = conversation();
  Requests requests;
  for (uint32_t i = 0; i < 5000; ++i)
    append_address(requests, 0x0a000001 + i);
  EXPECT_THAT(pairs(kernel.send_all(requests, "first")), IsEmpty());
  EXPECT_EQ(kernel.sent(), 5000U);
  const auto failures = kernel.send_all(requests, "again");
  ASSERT_TRUE(failures) << failures.error().text;
  ASSERT_EQ(failures->size(), 5000U);
  for (size_t i = 0; i < failures->size(); ++i) {
    ASSERT_EQ((*failures)[i].place, i);
    ASSERT_EQ((*failures)[i].number, EEXIST);
  }
}

TEST_F(NetlinkTest, OneRequestIsRefusedWithANumber) {
  auto kernel = conversation();
  Requests request;
  append_address(request, 0x0a000001);
  EXPECT_EQ(try_one(kernel, request, "first").value_or(-1), 0);
  EXPECT_EQ(try_one(kernel, request, "again").value_or(-1), EEXIST);
}

TEST_F(NetlinkTest, CountsQuestionsToo) {
  auto kernel = conversation();
  Message message;
  nlmsghdr* header = message.add(RTM_GETADDR, NLM_F_DUMP);
  mnl_nlmsg_put_extra_header(header, sizeof(ifaddrmsg));
  message.close(header);
  EXPECT_TRUE(kernel.ask(message, "list"));
  EXPECT_EQ(kernel.sent(), 1U);
}

}  // namespace
}  // namespace kernel::netlink
