#include "kernel/tcp_reset.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/conntrack.h"
#include "kernel/nf_tables.h"
#include "support/builders.h"
#include "support/conntrack_entries.h"
#include "support/own_network.h"

namespace kernel {
namespace {

using build::ip;
using net::Family;
using net::Flow;
using testing::IsEmpty;
using testing::SizeIs;

constexpr size_t kMany = 1000;

// An end of a connection on loopback. TCP answers at once there: what is to happen has happened when a call returns,
// but for what the kernel leaves to its own thread.
class End {
 public:
  explicit End(base::Fd fd) : fd_(std::move(fd)) {}
  int fd() const { return fd_.get(); }

  // Waits for something to read, and reads it: errno, or 0.
  int read_error() const {
    pollfd wait{fd_.get(), POLLIN, 0};
    if (::poll(&wait, 1, 5000) == 0) return ETIMEDOUT;
    char byte = 0;
    return ::recv(fd_.get(), &byte, 1, 0) < 0 ? errno : 0;
  }
  bool send() const { return ::send(fd_.get(), "x", 1, MSG_NOSIGNAL) == 1; }

 private:
  base::Fd fd_;
};

struct Pair {
  End client;
  End server;
  uint16_t client_port;
};

class TcpReset : public build::OwnNetwork, public testing::WithParamInterface<Family> {
 protected:
  void SetUp() override {
    OwnNetwork::SetUp();
    if (IsSkipped()) return;
    auto opened = TcpResetter::open(family());
    if (!opened) GTEST_SKIP() << opened.error().text;
    resetter_.emplace(std::move(*opened));
    track();
    listen();
  }
  void TearDown() override {
    resetter_.reset();
    listener_.reset();
    OwnNetwork::TearDown();
  }

  static Family family() { return GetParam(); }
  static int domain() { return family() == Family::V4 ? AF_INET : AF_INET6; }

  // Connections are tracked in a namespace only while a rule asks for it.
  static void track() {
    nf_tables::Batch batch(family(), "test");
    batch.add_table();
    batch.add_chain({.name = "c", .hook = nf_tables::Chain::Hook{NF_INET_LOCAL_OUT, 0}});
    batch.add_rule("c", {{nf_tables::Load::conntrack(NFT_CT_STATE)}});
    ASSERT_TRUE(batch.commit("track"));
  }

  static base::Fd bound(uint16_t port) {
    base::Fd fd(::socket(domain(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval patience{5, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);  // accept() too
    ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);  // connect() too
    const int yes = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_storage address = loopback(port);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  void listen() {
    listener_ = bound(0);
    ASSERT_EQ(::listen(listener_.get(), 16), 0);
    port_ = port_of(listener_.get());
  }

  Pair connect(uint16_t from = 0) const {
    base::Fd client = bound(from);
    sockaddr_storage to = loopback(port_);
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    base::Fd server(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const uint16_t port = port_of(client.get());
    return {End(std::move(client)), End(std::move(server)), port};
  }

  std::vector<Flow> reset(const std::function<bool(const Flow&)>& doomed, size_t limit = kMany) {
    const auto flows = resetter_->reset(doomed, limit);
    EXPECT_TRUE(flows) << flows.error().text;
    return flows.value_or(std::vector<Flow>{});
  }
  std::vector<Flow> reset(const Pair& pair) {
    return reset([&](const Flow& flow) { return flow.original.source_port == pair.client_port; });
  }

  static size_t tracked() {
    size_t count = 0;
    EXPECT_TRUE(visit_flows(family(), net::Protocol::Tcp, [&](const Flow&) { ++count; }));
    return count;
  }

  // And deletes it.
  static bool table_was_there() {
    nf_tables::Batch batch(family(), kTcpResetTable);
    batch.delete_table();
    return batch.commit("test").has_value();
  }

  std::optional<TcpResetter> resetter_;

 private:
  static sockaddr_storage loopback(uint16_t port) {
    sockaddr_storage address{};
    address.ss_family = static_cast<sa_family_t>(domain());
    if (family() == Family::V4) {
      auto& v4 = reinterpret_cast<sockaddr_in&>(address);
      v4.sin_port = htons(port);
      v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
      auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
      v6.sin6_port = htons(port);
      v6.sin6_addr = in6addr_loopback;
    }
    return address;
  }

  static uint16_t port_of(int fd) {
    sockaddr_in6 address{};
    socklen_t size = sizeof address;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin6_port);  // in the same place in both families
  }

  base::Fd listener_;
  uint16_t port_ = 0;
};

TEST_P(TcpReset, BothEndsOfAnIdleConnectionAreReset) {
  const Pair pair = connect();
  EXPECT_THAT(reset(pair), SizeIs(1));
  EXPECT_EQ(pair.client.read_error(), ECONNRESET);
  EXPECT_EQ(pair.server.read_error(), ECONNRESET);
}

TEST_P(TcpReset, OtherConnectionsGoOn) {
  const Pair doomed = connect();
  const Pair other = connect();
  reset(doomed);
  EXPECT_EQ(doomed.client.read_error(), ECONNRESET);
  EXPECT_TRUE(other.client.send());
  EXPECT_EQ(other.server.read_error(), 0);
  EXPECT_TRUE(other.server.send());
  EXPECT_EQ(other.client.read_error(), 0);
}

TEST_P(TcpReset, ANewConnectionFromTheSamePortIsNotHarmed) {
  uint16_t port = 0;
  {
    const Pair pair = connect();
    port = pair.client_port;
    reset(pair);
    EXPECT_EQ(pair.client.read_error(), ECONNRESET);
    EXPECT_EQ(pair.server.read_error(), ECONNRESET);
  }
  const Pair again = connect(port);
  EXPECT_TRUE(again.client.send());
  EXPECT_EQ(again.server.read_error(), 0);
  EXPECT_TRUE(again.server.send());
  EXPECT_EQ(again.client.read_error(), 0);
}

TEST_P(TcpReset, TheEntryIsForgotten) {
  const Pair pair = connect();
  EXPECT_EQ(tracked(), 1U);
  reset(pair);
  EXPECT_EQ(tracked(), 0U);
}

TEST_P(TcpReset, WithoutDoomedConnectionsNothingIsInstalled) {
  const Pair pair = connect();
  EXPECT_THAT(reset([](const Flow&) { return false; }), IsEmpty());
  EXPECT_FALSE(table_was_there());
  EXPECT_EQ(tracked(), 1U);
}

TEST_P(TcpReset, TheTableStaysUntilItIsCleared) {
  reset(connect());
  EXPECT_TRUE(clear_tcp_resets(family()));
  EXPECT_FALSE(table_was_there());
  EXPECT_TRUE(clear_tcp_resets(family())) << "twice is no error";
}

TEST_P(TcpReset, TheNextProcessRemovesWhatTheLastOneLeft) {
  reset(connect());
  ASSERT_TRUE(TcpResetter::open(family()));
  EXPECT_FALSE(table_was_there());
}

TEST_P(TcpReset, FlushedRulesAreMadeAnew) {
  reset(connect());
  ASSERT_TRUE(table_was_there());
  const Pair pair = connect();
  reset(pair);
  EXPECT_EQ(pair.client.read_error(), ECONNRESET);
}

TEST_P(TcpReset, TheLimitIsKeptAndTheRestIsLeftForTheNextTime) {
  const auto client = ip(family() == Family::V4 ? "10.244.1.2" : "fd00:244:1::2");
  const auto vip = ip(family() == Family::V4 ? "10.96.0.1" : "fd00:10:96::1");
  const auto endpoint = ip(family() == Family::V4 ? "10.244.1.5" : "fd00:244:1::5");
  auto filler = build::ConntrackFiller::open();
  ASSERT_TRUE(filler);
  for (uint16_t port = 1; port <= kMany; ++port) {
    ASSERT_TRUE(
        filler->add(build::flow(net::Protocol::Tcp, {client, vip, port, 80}, endpoint, 8080)));
  }
  ASSERT_TRUE(filler->flush());
  const auto doomed = [&](const Flow& flow) { return flow.reply.source == endpoint; };
  EXPECT_THAT(reset(doomed, 600), SizeIs(600));
  EXPECT_EQ(tracked(), kMany - 600);
  EXPECT_THAT(reset(doomed, 600), SizeIs(kMany - 600));
  EXPECT_THAT(reset(doomed, 600), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Families, TcpReset, testing::ValuesIn(net::kFamilies),
                         [](const auto& one) { return std::string(net::name(one.param)); });

}  // namespace
}  // namespace kernel
