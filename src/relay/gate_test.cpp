#include "relay/gate.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "relay/socket_address.h"
#include "support/builders.h"
#include "support/own_network.h"

namespace relay {
namespace {

using base::ErrorCode;
using build::cidr;
using build::ip;
using net::Family;
using net::IpAddr;

struct Packet {
  IpAddr source;
  bool over_loopback = false;
};

// What a gate means.
bool lets_in(const Gate& gate, const Packet& packet) {
  return std::ranges::all_of(gate.rules, [&](const Sources& rule) {
    if (rule.this_node && packet.over_loopback) return true;
    return std::ranges::any_of(
        rule.networks, [&](const net::Cidr& network) { return network.contains(packet.source); });
  });
}

// A machine for the instructions that we use; any other one fails.
class Machine {
 public:
  explicit Machine(const Packet& packet) : packet_(packet) {}

  bool run(const std::vector<sock_filter>& program) {
    for (size_t at = 0; at < program.size(); ++at) {
      const sock_filter& now = program[at];
      switch (now.code) {
        case BPF_LD | BPF_W | BPF_ABS:
          a_ = load(static_cast<int>(now.k));
          break;
        case BPF_LD | BPF_MEM:
          a_ = memory_.at(now.k);
          break;
        case BPF_ST:
          memory_.at(now.k) = a_;
          break;
        case BPF_ALU | BPF_AND | BPF_K:
          a_ &= now.k;
          break;
        case BPF_JMP | BPF_JA:
          at += now.k;
          break;
        case BPF_JMP | BPF_JEQ | BPF_K:
          at += a_ == now.k ? now.jt : now.jf;
          break;
        case BPF_RET | BPF_K:
          return now.k != 0;
        default:
          ADD_FAILURE() << "instruction " << now.code;
          return false;
      }
    }
    ADD_FAILURE() << "no end";
    return false;
  }

 private:
  uint32_t load(int offset) const {
    if (offset == SKF_AD_OFF + SKF_AD_HATYPE)
      return packet_.over_loopback ? ARPHRD_LOOPBACK : ARPHRD_ETHER;
    const int first = SKF_NET_OFF + (packet_.source.family() == Family::V4 ? 12 : 8);
    uint32_t word = 0;
    EXPECT_LE(offset - first + 4, packet_.source.bits() / 8);
    std::memcpy(&word, packet_.source.data() + (offset - first), sizeof word);
    return ntohl(word);
  }

  Packet packet_;
  uint32_t a_ = 0;
  std::array<uint32_t, BPF_MEMWORDS> memory_{};
};

bool compiled_lets_in(const Gate& gate, const Packet& packet) {
  const auto program = compile(gate, packet.source.family());
  if (!program) ADD_FAILURE() << program.error().text;
  return Machine(packet).run(program.value());
}

// Addresses with few different bits, so that many are in one of the networks.
rc::Gen<IpAddr> some_ip(Family family) {
  const auto byte = rc::gen::element<uint8_t>(0, 1, 128, 255);
  return rc::gen::map(rc::gen::container<std::array<uint8_t, 16>>(byte),
                      [family](const std::array<uint8_t, 16>& bytes) {
                        if (family == Family::V6) return IpAddr::v6(bytes);
                        uint32_t word = 0;
                        std::memcpy(&word, bytes.data(), sizeof word);
                        return IpAddr::v4(word);
                      });
}

rc::Gen<net::Cidr> some_network(Family family) {
  const int bits = family == Family::V4 ? 32 : 128;
  return rc::gen::map(rc::gen::pair(some_ip(family), rc::gen::inRange(0, bits + 1)),
                      [](const auto& made) { return net::Cidr(made.first, made.second); });
}

rc::Gen<Sources> some_sources(Family family) {
  return rc::gen::build<Sources>(
      rc::gen::set(&Sources::networks,
                   rc::gen::container<std::vector<net::Cidr>>(some_network(family))),
      rc::gen::set(&Sources::this_node));
}

void law(Family family) {
  const auto count = *rc::gen::inRange<size_t>(1, 4);
  const Gate gate{*rc::gen::container<std::vector<Sources>>(count, some_sources(family))};
  const auto sources = *rc::gen::container<std::vector<IpAddr>>(some_ip(family));
  for (const IpAddr& source : sources) {
    for (const bool over_loopback : {false, true}) {
      const Packet packet{source, over_loopback};
      RC_ASSERT(compiled_lets_in(gate, packet) == lets_in(gate, packet));
    }
  }
}

RC_GTEST_PROP(Gate, LetsInExactlyThoseThatItNamesOverIpv4, ()) { law(Family::V4); }
RC_GTEST_PROP(Gate, LetsInExactlyThoseThatItNamesOverIpv6, ()) { law(Family::V6); }

TEST(Gate, WithoutRulesThereIsNoFilter) { EXPECT_TRUE(compile({}, Family::V4).value().empty()); }

TEST(Gate, NobodyComesIfNobodyIsNamed) {
  const Gate nobody{{Sources{}}};
  EXPECT_FALSE(compiled_lets_in(nobody, {ip("10.0.0.1"), true}));
  EXPECT_FALSE(compiled_lets_in(nobody, {ip("fd00::1"), true}));
}

TEST(Gate, NetworksOfAnotherFamilyLetNobodyIn) {
  EXPECT_FALSE(compiled_lets_in({{{.networks = {cidr("::/0")}}}}, {ip("10.0.0.1")}));
  EXPECT_FALSE(compiled_lets_in({{{.networks = {cidr("0.0.0.0/0")}}}}, {ip("fd00::1")}));
}

Gate hosts(uint32_t count, Family family) {
  Gate gate{{Sources{}}};
  for (uint32_t i = 0; i < count; ++i) {
    const auto last = static_cast<uint8_t>(i);
    const auto before = static_cast<uint8_t>(i >> 8);
    gate.rules[0].networks.push_back(net::Cidr::host(
        family == Family::V4
            ? IpAddr::v4(0x0a000000 + i)
            : IpAddr::v6({0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, before, last})));
  }
  return gate;
}

TEST(Gate, HasRoomForThousandsOfSources) {
  const Gate gate = hosts(4000, Family::V4);
  const auto program = compile(gate, Family::V4).value();
  for (const auto& network : gate.rules[0].networks)
    ASSERT_TRUE(Machine({network.base()}).run(program)) << network.str();
  EXPECT_FALSE(Machine({ip("10.0.15.160")}).run(program));
  EXPECT_TRUE(compile(hosts(400, Family::V6), Family::V6));
}

TEST(Gate, TooManySourcesAreRefused) {
  for (const Family family : net::kFamilies) {
    const auto program = compile(hosts(5000, family), family);
    ASSERT_FALSE(program);
    EXPECT_EQ(program.error().code, ErrorCode::Invalid);
  }
}

// On the kernel.

class GateInKernel : public build::OwnNetwork {
 protected:
  static base::Fd bound(int type, const IpAddr& local, uint16_t port = 0) {
    const int domain = local.family() == Family::V4 ? AF_INET : AF_INET6;
    base::Fd socket(::socket(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const SocketAddress address(local, port);
    EXPECT_EQ(::bind(socket.get(), address.get(), address.size()), 0) << std::strerror(errno);
    return socket;
  }
  static SocketAddress name_of(const base::Fd& socket) {
    SocketAddress name;
    socklen_t size = SocketAddress::capacity();
    EXPECT_EQ(::getsockname(socket.get(), name.buffer(), &size), 0);
    return name;
  }

  static base::Fd listener(const IpAddr& local) {
    base::Fd socket = bound(SOCK_STREAM, local);
    EXPECT_EQ(::listen(socket.get(), 16), 0);
    return socket;
  }
  // The state of the connection: over loopback the answer to the first packet has come when connect() returns.
  static int connect(const base::Fd& to, const IpAddr& from) {
    const base::Fd socket = bound(SOCK_STREAM, from);
    const SocketAddress name = name_of(to);
    ::connect(socket.get(), name.get(), name.size());
    tcp_info info{};
    socklen_t size = sizeof info;
    EXPECT_EQ(::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    return info.tcpi_state;
  }
  static void send(const base::Fd& to, const IpAddr& from, std::string_view text) {
    const base::Fd socket = bound(SOCK_DGRAM, from);
    const SocketAddress name = name_of(to);
    ::sendto(socket.get(), text.data(), text.size(), 0, name.get(), name.size());
  }
  // What waits at the socket, at once.
  static std::string waiting(const base::Fd& socket) {
    std::string out;
    char buffer[64];
    for (ssize_t got; (got = ::recv(socket.get(), buffer, sizeof buffer, 0)) >= 0;)
      out.append(buffer, static_cast<size_t>(got));
    return out;
  }
};

TEST_F(GateInKernel, ConnectionsOfOthersGetNoAnswer) {
  const base::Fd server = listener(ip("127.0.0.1"));
  const Gate gate{{{.networks = {cidr("127.0.0.2/32"), cidr("127.1.0.0/16")}}}};
  ASSERT_TRUE(apply(gate, Family::V4, server.get()));
  EXPECT_EQ(connect(server, ip("127.0.0.2")), TCP_ESTABLISHED);
  EXPECT_EQ(connect(server, ip("127.1.2.3")), TCP_ESTABLISHED);
  EXPECT_EQ(connect(server, ip("127.0.0.3")), TCP_SYN_SENT);
}

TEST_F(GateInKernel, WorksOverIpv6) {
  const base::Fd server = listener(ip("::1"));
  ASSERT_TRUE(
      apply({{{.networks = {cidr("::2/128"), cidr("fd00::/8")}}}}, Family::V6, server.get()));
  EXPECT_EQ(connect(server, ip("::1")), TCP_SYN_SENT);
  ASSERT_TRUE(
      apply({{{.networks = {cidr("fd00::/8"), cidr("::1/128")}}}}, Family::V6, server.get()));
  EXPECT_EQ(connect(server, ip("::1")), TCP_ESTABLISHED);
}

TEST_F(GateInKernel, AnotherGateTakesThePlaceOfTheFirst) {
  const base::Fd server = listener(ip("127.0.0.1"));
  ASSERT_TRUE(apply({}, Family::V4, server.get()));
  ASSERT_TRUE(apply({{Sources{}}}, Family::V4, server.get()));
  EXPECT_EQ(connect(server, ip("127.0.0.2")), TCP_SYN_SENT);
  ASSERT_TRUE(apply({{{.this_node = true}}}, Family::V4, server.get()));
  EXPECT_EQ(connect(server, ip("127.0.0.2")), TCP_ESTABLISHED);
  ASSERT_TRUE(apply({{Sources{}}}, Family::V4, server.get()));
  ASSERT_TRUE(apply({}, Family::V4, server.get()));
  EXPECT_EQ(connect(server, ip("127.0.0.2")), TCP_ESTABLISHED);
}

TEST_F(GateInKernel, TakesAsManySourcesAsWeMayGive) {
  const base::Fd server = listener(ip("127.0.0.1"));
  Gate gate = hosts(4000, Family::V4);
  gate.rules[0].networks.push_back(cidr("127.0.0.2/32"));
  const auto done = apply(gate, Family::V4, server.get());
  if (!done) GTEST_SKIP() << done.error().text;
  EXPECT_EQ(connect(server, ip("127.0.0.2")), TCP_ESTABLISHED);
  EXPECT_EQ(connect(server, ip("127.0.0.3")), TCP_SYN_SENT);
}

TEST_F(GateInKernel, DatagramsOfOthersAreDropped) {
  const base::Fd server = bound(SOCK_DGRAM, ip("127.0.0.1"));
  ASSERT_TRUE(apply({{{.networks = {cidr("127.0.0.2/32")}}}}, Family::V4, server.get()));
  send(server, ip("127.0.0.3"), "no");
  send(server, ip("127.0.0.2"), "yes");
  EXPECT_EQ(waiting(server), "yes");
}

// A device whose packets come from the test.
class Tunnel {
 public:
  explicit Tunnel(const IpAddr& ours) : device_(::open("/dev/net/tun", O_RDWR | O_CLOEXEC)) {
    ifreq request{};
    std::strcpy(request.ifr_name, "kp0");
    request.ifr_flags = static_cast<short>(IFF_TUN | IFF_NO_PI);
    if (::ioctl(device_.get(), TUNSETIFF, &request) != 0) return;
    const base::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const SocketAddress address(ours, 0);
    std::memcpy(&request.ifr_addr, address.get(), address.size());
    if (::ioctl(socket.get(), SIOCSIFADDR, &request) != 0) return;
    request.ifr_flags = IFF_UP;
    works_ = ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
  }
  bool works() const { return works_; }

  void arrive(const IpAddr& from, const Peer& to, char byte) const {
    struct {
      iphdr ip{};
      udphdr udp{};
      char byte;
    } __attribute__((packed)) packet;
    packet.byte = byte;
    packet.ip.version = 4;
    packet.ip.ihl = 5;
    packet.ip.ttl = 64;
    packet.ip.protocol = IPPROTO_UDP;
    packet.ip.tot_len = htons(sizeof packet);
    std::memcpy(&packet.ip.saddr, from.data(), sizeof packet.ip.saddr);
    std::memcpy(&packet.ip.daddr, to.ip.data(), sizeof packet.ip.daddr);
    packet.ip.check = checksum(packet.ip);
    packet.udp.source = htons(4711);
    packet.udp.dest = htons(to.port);
    packet.udp.len = htons(sizeof packet.udp + sizeof packet.byte);
    EXPECT_EQ(::write(device_.get(), &packet, sizeof packet), ssize_t{sizeof packet});
  }

 private:
  static uint16_t checksum(const iphdr& header) {
    std::array<uint16_t, sizeof header / 2> words;
    std::memcpy(words.data(), &header, sizeof header);
    uint32_t sum = 0;
    for (const uint16_t word : words)
      sum += word;
    while (sum > 0xffff)
      sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(~sum);
  }

  base::Fd device_;
  bool works_ = false;
};

TEST_F(GateInKernel, OnlyWhatComesOverLoopbackIsOfThisNode) {
  const IpAddr ours = ip("10.9.9.1");
  const IpAddr neighbour = ip("10.9.9.2");
  const Tunnel tunnel(ours);
  if (!tunnel.works()) GTEST_SKIP() << "needs tun devices";
  const base::Fd gated = bound(SOCK_DGRAM, ours);
  const base::Fd open = bound(SOCK_DGRAM, ours);
  ASSERT_TRUE(apply({{{.this_node = true}}}, Family::V4, gated.get()));
  tunnel.arrive(neighbour, name_of(gated).peer(), 'a');
  tunnel.arrive(neighbour, name_of(open).peer(), 'b');
  pollfd wait{open.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&wait, 1, 10'000), 1);  // packets come one after the other
  EXPECT_EQ(waiting(open), "b");
  send(gated, ours, "c");
  EXPECT_EQ(waiting(gated), "c");
}

}  // namespace
}  // namespace relay
