#include "kernel/conntrack.h"

#include <fcntl.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fd.h"
#include "kernel/conntrack_message.h"
#include "support/builders.h"
#include "support/conntrack_entries.h"

namespace kernel {
namespace {

using base::ErrorCode;
using build::ip;
using net::Family;
using net::Flow;
using net::Protocol;
using netlink::Conversation;
using netlink::Message;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

Flow flow(Protocol protocol, std::string_view client, uint16_t port, std::string_view endpoint) {
  const auto vip = ip(endpoint.contains(':') ? "fd00:10:96::1" : "10.96.0.1");
  return build::flow(protocol, {ip(client), vip, port, 53}, ip(endpoint), 8053);
}
Flow udp(uint16_t port, std::string_view endpoint = "10.244.1.5") {
  return flow(Protocol::Udp, "10.244.1.2", port, endpoint);
}
Flow udp_v6(uint16_t port) { return flow(Protocol::Udp, "fd00:244:1::2", port, "fd00:244:1::5"); }

// Decoding

// A message with what the kernel tells of an entry; `more` may add to it.
struct Told {
  explicit Told(const Flow& flow, uint8_t family = AF_INET) {
    header = message.add_netfilter(NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW, 0, family);
    put_tuple(header, CTA_TUPLE_ORIG, flow.original, flow.protocol);
    put_tuple(header, CTA_TUPLE_REPLY, flow.reply, flow.protocol);
    mnl_attr_put_u32(header, CTA_ID, 4711);
  }
  Message message;
  nlmsghdr* header = nullptr;
};

TEST(ConntrackMessage, GivesBackWhatWasPut) {
  EXPECT_EQ(decode_flow(*Told(udp(1024)).header), (TrackedFlow{udp(1024), 4711}));
  EXPECT_EQ(decode_flow(*Told(udp_v6(1024), AF_INET6).header), (TrackedFlow{udp_v6(1024), 4711}));
  for (const auto protocol : {Protocol::Tcp, Protocol::Udp, Protocol::Sctp}) {
    const auto one = flow(protocol, "10.244.1.2", 1, "10.244.1.3");
    EXPECT_EQ(decode_flow(*Told(one).header)->flow, one);
  }
}

TEST(ConntrackMessage, SkipsOtherZones) {
  Told told(udp(1024));
  mnl_attr_put_u16(told.header, CTA_ZONE, htons(7));
  EXPECT_EQ(decode_flow(*told.header), std::nullopt);
}

TEST(ConntrackMessage, SkipsOtherFamiliesThanItSays) {
  EXPECT_EQ(decode_flow(*Told(udp(1024), AF_INET6).header), std::nullopt);
  EXPECT_EQ(decode_flow(*Told(udp_v6(1024), AF_INET).header), std::nullopt);
  EXPECT_EQ(decode_flow(*Told(udp(1024), AF_BRIDGE).header), std::nullopt);
}

TEST(ConntrackMessage, SkipsOtherMessages) {
  Told told(udp(1024));
  told.header->nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE;
  EXPECT_EQ(decode_flow(*told.header), std::nullopt);
}

// However much of it is missing, at the end or of one attribute, there is no entry and no harm.
TEST(ConntrackMessage, SkipsWhatIsNotWhole) {
  const Told told(udp(1024));
  for (uint32_t size = sizeof(nlmsghdr); size < told.header->nlmsg_len; ++size) {
    Told cut = told;
    cut.header = reinterpret_cast<nlmsghdr*>(cut.message.bytes.data());
    cut.header->nlmsg_len = size;
    EXPECT_EQ(decode_flow(*cut.header), std::nullopt) << size;
  }
}

TEST(ConntrackMessage, SkipsAttributesOfTheWrongSize) {
  Told told(udp(1024));
  mnl_attr_put_u64(told.header, CTA_ID, 4711);
  EXPECT_EQ(decode_flow(*told.header), std::nullopt);
}

// On the kernel

// In a network namespace of its own, to which this thread moves for the length of a test.
class Conntrack : public testing::Test {
 protected:
  void SetUp() override {
    if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "needs the right to make network namespaces";
    const auto probe = visit_flows(Family::V4, Protocol::Udp, [](const Flow&) {});
    if (!probe) GTEST_SKIP() << "needs conntrack over netlink: " << probe.error().text;
    auto opened = build::ConntrackFiller::open();
    ASSERT_TRUE(opened) << opened.error().text;
    filler_.emplace(std::move(*opened));
  }
  void TearDown() override {
    filler_.reset();
    ASSERT_EQ(setns(home_.get(), CLONE_NEWNET), 0);
  }

  void add(const std::vector<Flow>& flows) {
    for (const auto& one : flows)
      ASSERT_TRUE(filler_->add(one));
    const auto done = filler_->flush();
    ASSERT_TRUE(done) << done.error().text;
  }

  static std::vector<Flow> present(Family family = Family::V4, Protocol protocol = Protocol::Udp) {
    std::vector<Flow> found;
    const auto seen = visit_flows(family, protocol, [&](const Flow& one) { found.push_back(one); });
    EXPECT_TRUE(seen) << seen.error().text;
    return found;
  }

  // The entries themselves, for their ids.
  static std::vector<TrackedFlow> tracked() {
    std::vector<TrackedFlow> found;
    auto conversation = Conversation::open(NETLINK_NETFILTER);
    EXPECT_TRUE(conversation->ask(dump_request(Family::V4, std::nullopt), "list",
                                  [&](const nlmsghdr& message) {
                                    if (const auto one = decode_flow(message))
                                      found.push_back(*one);
                                  }));
    return found;
  }

  static Sweep sweep(const std::function<bool(const Flow&)>& stale, Family family = Family::V4) {
    const auto done = sweep_flows(family, Protocol::Udp, stale);
    EXPECT_TRUE(done) << done.error().text;
    return done.value_or(Sweep{});
  }

  const base::Fd home_{open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)};
  std::optional<build::ConntrackFiller> filler_;
};

constexpr auto kAll = [](const Flow&) { return true; };

TEST_F(Conntrack, ShowsWhatIsThere) {
  EXPECT_THAT(present(), IsEmpty());
  add({udp(1024), udp(1025), udp_v6(1024)});
  EXPECT_THAT(present(), UnorderedElementsAreArray({udp(1024), udp(1025)}));
  EXPECT_THAT(present(Family::V6), ElementsAre(udp_v6(1024)));
}

TEST_F(Conntrack, TheKernelPicksTheProtocol) {
  add({udp(1024), flow(Protocol::Tcp, "10.244.1.2", 1024, "10.244.1.5"),
       flow(Protocol::Sctp, "10.244.1.2", 1024, "10.244.1.5")});
  auto conversation = Conversation::open(NETLINK_NETFILTER);
  ASSERT_TRUE(conversation);
  const auto shown = [&](std::optional<Protocol> protocol) {
    int count = 0;
    EXPECT_TRUE(conversation->ask(dump_request(Family::V4, protocol), "list",
                                  [&](const nlmsghdr&) { ++count; }));
    return count;
  };
  EXPECT_EQ(shown(std::nullopt), 3);
  // A kernel without filters shows three here, and all else still holds.
  EXPECT_EQ(shown(Protocol::Udp), 1) << "does this kernel know no filters?";
  EXPECT_THAT(present(), ElementsAre(udp(1024)));
}

TEST_F(Conntrack, DeletesOnlyWhatIsStale) {
  add({udp(1024, "10.244.1.5"), udp(1025, "10.244.1.6"), udp(1026, "10.244.1.5")});
  const auto done = sweep([](const Flow& one) { return one.reply.source == ip("10.244.1.5"); });
  EXPECT_EQ(done.seen, 3U);
  EXPECT_EQ(done.deleted, 2U);
  EXPECT_FALSE(done.interrupted);
  EXPECT_THAT(present(), ElementsAre(udp(1025, "10.244.1.6")));
}

TEST_F(Conntrack, LeavesOtherProtocolsAndTheOtherFamilyAlone) {
  const auto tcp = flow(Protocol::Tcp, "10.244.1.2", 1024, "10.244.1.5");
  const auto sctp = flow(Protocol::Sctp, "10.244.1.2", 1024, "10.244.1.5");
  add({udp(1024), tcp, sctp, udp_v6(1024)});
  EXPECT_EQ(sweep(kAll).deleted, 1U);
  EXPECT_THAT(present(), IsEmpty());
  EXPECT_THAT(present(Family::V4, Protocol::Tcp), ElementsAre(tcp));
  EXPECT_THAT(present(Family::V4, Protocol::Sctp), ElementsAre(sctp));
  EXPECT_THAT(present(Family::V6), ElementsAre(udp_v6(1024)));
  EXPECT_EQ(sweep(kAll, Family::V6).deleted, 1U);
  EXPECT_THAT(present(Family::V6), IsEmpty());
}

TEST_F(Conntrack, LeavesOtherZonesAlone) {
  add({udp(1024)});
  ASSERT_TRUE(filler_->add(udp(1024),
                           [](nlmsghdr* header) { mnl_attr_put_u16(header, CTA_ZONE, htons(7)); }));
  if (const auto done = filler_->flush(); !done) GTEST_SKIP() << "no zones: " << done.error().text;
  EXPECT_EQ(sweep(kAll).deleted, 1U);
  int left = 0;
  auto conversation = Conversation::open(NETLINK_NETFILTER);
  ASSERT_TRUE(conversation->ask(dump_request(Family::V4, Protocol::Udp), "list",
                                [&](const nlmsghdr&) { ++left; }));
  EXPECT_EQ(left, 1);
}

TEST_F(Conntrack, AnEntryThatTookThePlaceOfAStaleOneStays) {
  add({udp(1024)});
  auto stale = tracked().at(0);
  stale.id ^= 1;  // what was there before
  const auto done = netlink::transact(NETLINK_NETFILTER, delete_request(stale), "delete");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::NotFound);
  EXPECT_THAT(present(), ElementsAre(udp(1024)));
}

TEST_F(Conntrack, EntriesThatVanishMeanwhileAreNoError) {
  add({udp(1024), udp(1025)});
  const auto entries = tracked();
  const auto done = sweep([&](const Flow& one) {
    const auto found = std::ranges::find(entries, one, &TrackedFlow::flow);
    EXPECT_TRUE(netlink::transact(NETLINK_NETFILTER, delete_request(*found), "delete"));
    return true;
  });
  EXPECT_EQ(done.seen, 2U);
  EXPECT_EQ(done.deleted, 0U);
  EXPECT_THAT(present(), IsEmpty());
}

// A dump waits for its reader: a small buffer makes it slow, not incomplete.
TEST_F(Conntrack, ADumpIsWholeWhateverTheBufferOfTheSocket) {
  std::vector<Flow> flows;
  for (uint16_t port = 1024; port < 3024; ++port)
    flows.push_back(udp(port));
  add(flows);
  auto conversation = Conversation::open(NETLINK_NETFILTER);
  ASSERT_TRUE(conversation);
  const int smallest = 1;
  ASSERT_EQ(setsockopt(mnl_socket_get_fd(conversation->socket()), SOL_SOCKET, SO_RCVBUF, &smallest,
                       sizeof smallest),
            0);
  size_t shown = 0;
  const auto done = conversation->ask(dump_request(Family::V4, Protocol::Udp), "list",
                                      [&](const nlmsghdr&) { ++shown; });
  EXPECT_TRUE(done) << done.error().text;
  EXPECT_EQ(shown, flows.size());
}

// Others open and close connections all the time.
TEST_F(Conntrack, DeletesEveryStaleEntryWhileTheTableChanges) {
  std::vector<Flow> stale;
  std::vector<Flow> valid;
  for (uint16_t port = 1024; port < 6024; ++port) {
    stale.push_back(udp(port, "10.244.1.5"));
    valid.push_back(flow(Protocol::Udp, "10.244.1.3", port, "10.244.1.6"));
  }
  add(stale);
  add(valid);
  std::atomic<bool> over = false;
  std::jthread others([&] {  // a new thread is in the namespace of the one that makes it
    auto filler = build::ConntrackFiller::open();
    for (uint16_t port = 1; !over; port = port % 60000 + 1) {
      (void)filler->add(flow(Protocol::Udp, "10.244.1.4", port, "10.244.1.6"));
      (void)filler->flush();
    }
  });
  const auto done = sweep([](const Flow& one) { return one.reply.source == ip("10.244.1.5"); });
  over = true;
  others.join();
  EXPECT_EQ(done.deleted, stale.size());
  auto left = present();
  std::erase_if(left, [](const Flow& one) { return one.original.source == ip("10.244.1.4"); });
  EXPECT_THAT(left, testing::SizeIs(valid.size()));
}

size_t peak_kb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (size_t kb = 0; word == "VmHWM:" && status >> kb) return kb;
  }
  return 0;
}

// 200,000 entries, and one in 200 leads to an endpoint that is gone.
TEST_F(Conntrack, ALargeTableCostsNoMemory) {
  constexpr uint32_t kEntries = 200'000;
  constexpr size_t kStale = 1'000;
  const auto gone = ip("10.244.9.9");
  for (uint32_t i = 0; i < kEntries; ++i) {
    const net::Tuple original{net::IpAddr::v4(0x0af40002 + i / 50'000), ip("10.96.0.1"),
                              static_cast<uint16_t>(1024 + i % 50'000), 53};
    const auto endpoint = i % (kEntries / kStale) == 0 ? gone : ip("10.244.1.5");
    const auto done = filler_->add(build::flow(Protocol::Udp, original, endpoint, 8053));
    if (!done) GTEST_SKIP() << "is nf_conntrack_max too small? " << done.error().text;
  }
  ASSERT_TRUE(filler_->flush());

  std::ofstream("/proc/self/clear_refs") << "5";  // forgets the peak
  const size_t before = peak_kb();
  const auto is_stale = [&](const Flow& one) { return one.reply.source == gone; };
  const auto done = sweep(is_stale);
  const size_t grown = peak_kb() - before;

  EXPECT_EQ(done.seen, kEntries);
  EXPECT_EQ(done.deleted, kStale);
  EXPECT_LE(grown, size_t{20} * 1024) << "KB";
  const auto after = sweep(is_stale);
  EXPECT_EQ(after.seen, kEntries - kStale);
  EXPECT_EQ(after.deleted, 0U);
}

}  // namespace
}  // namespace kernel
