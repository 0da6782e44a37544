#include "kernel/tcp_reset.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <tuple>

#include "kernel/conntrack.h"
#include "kernel/netfilter.h"
#include "kernel/nf_tables.h"

namespace kernel {
namespace {

using base::Result;
using net::Family;
using net::Flow;
using net::Tuple;
using nf_tables::Batch;
using nf_tables::Compare;
using nf_tables::FieldType;
using nf_tables::Load;
using nf_tables::Mask;
using Rule = std::vector<nf_tables::Expression>;

constexpr const char* kDoomed = "doomed";
constexpr const char* kArriving = "prerouting";
constexpr const char* kLocal = "output";
constexpr const char* kOwn = "untracked-output";

// After connection tracking, and before addresses are rewritten: segments are as their sender made them.
constexpr int32_t kAfterTracking = -150;
constexpr int32_t kBeforeTracking = -300;

constexpr uint32_t kHalfWay = 0x80000000;
constexpr std::array<uint32_t, 2> kSequenceNumbers{0, kHalfWay};

// In the network header of either family.
struct AddressLayout {
  uint32_t source;
  uint32_t destination;
  uint32_t size;
};

AddressLayout layout(Family family) {
  if (family == Family::V4) return {offsetof(iphdr, saddr), offsetof(iphdr, daddr), 4};
  return {offsetof(ip6_hdr, ip6_src), offsetof(ip6_hdr, ip6_dst), 16};
}

// A port in a set or a register: followed by two bytes of zero.
constexpr uint32_t kPortSize = 4;

std::vector<uint8_t> key_of(const Tuple& tuple) {
  std::vector<uint8_t> key;
  const auto append = [&](const net::IpAddr& ip, uint16_t port) {
    key.insert(key.end(), ip.data(), ip.data() + ip.bits() / 8);
    key.insert(key.end(), {static_cast<uint8_t>(port >> 8), static_cast<uint8_t>(port), 0, 0});
  };
  append(tuple.source, tuple.source_port);
  append(tuple.destination, tuple.destination_port);
  return key;
}

Rule is_tcp() {
  return {Load::meta(NFT_META_L4PROTO), Compare::equal(static_cast<uint8_t>(IPPROTO_TCP))};
}

// Goes on if the segment, or one in the other direction, belongs to a doomed connection.
void append_lookup(Rule& rule, Family family, bool reversed) {
  const auto [source, destination, size] = layout(family);
  constexpr uint32_t kSourcePort = 0;
  constexpr uint32_t kDestinationPort = 2;
  const auto load = [&](Load::From from, uint32_t offset, uint32_t bytes, uint32_t to) {
    rule.emplace_back(Load{from, offset, bytes, to / 4});
  };
  load(Load::From::NetworkHeader, reversed ? destination : source, size, 0);
  load(Load::From::TransportHeader, reversed ? kDestinationPort : kSourcePort, 2, size);
  load(Load::From::NetworkHeader, reversed ? source : destination, size, size + kPortSize);
  load(Load::From::TransportHeader, reversed ? kSourcePort : kDestinationPort, 2,
       2 * size + kPortSize);
  rule.emplace_back(nf_tables::Lookup{kDoomed});
}

// Answers the segments of doomed connections. A connection that takes the place of one begins with a SYN, and is
// tracked from then on.
Rule answer_with_reset(Family family) {
  constexpr uint32_t kUnknown = NF_CT_STATE_INVALID_BIT | NF_CT_STATE_BIT(IP_CT_NEW);
  constexpr uint32_t kFlags = 13;
  Rule rule = is_tcp();
  rule.insert(rule.end(),
              {Load::conntrack(NFT_CT_STATE), Mask::of(kUnknown), Compare::unequal(uint32_t{0}),
               Load{Load::From::TransportHeader, kFlags, 1, 0},
               Mask::of(static_cast<uint8_t>(TH_SYN | TH_ACK)),
               Compare::unequal(static_cast<uint8_t>(TH_SYN))});
  append_lookup(rule, family, false);
  rule.emplace_back(nf_tables::RejectWithReset{});
  return rule;
}

// Our stray acknowledgements, told by their sequence numbers. Tracked, one would pass for a connection of its own, and
// its answer for the second half of that.
Rule leave_untracked(Family family) {
  Rule rule = is_tcp();
  rule.insert(rule.end(), {Load{Load::From::TransportHeader, offsetof(tcphdr, th_seq), 4, 0},
                           Mask::of(htonl(~kHalfWay)), Compare::equal(uint32_t{0})});
  append_lookup(rule, family, true);
  rule.emplace_back(nf_tables::NoTrack{});
  return rule;
}

// The same whatever was there before.
void add_rules(Batch& batch, Family family) {
  const auto address = family == Family::V4 ? FieldType::Ipv4 : FieldType::Ipv6;
  batch.add_table();
  batch.add_set({.name = kDoomed,
                 .key = {address, FieldType::Port, address, FieldType::Port},
                 .timeout = TcpResetter::kLinger});
  const auto chain = [&](const char* name, uint32_t hook, int32_t priority, const Rule& rule) {
    batch.add_chain({.name = name, .hook = nf_tables::Chain::Hook{hook, priority}});
    batch.flush_chain(name);
    batch.add_rule(name, {rule});
  };
  chain(kOwn, NF_INET_LOCAL_OUT, kBeforeTracking, leave_untracked(family));
  chain(kArriving, NF_INET_PRE_ROUTING, kAfterTracking, answer_with_reset(family));
  chain(kLocal, NF_INET_LOCAL_OUT, kAfterTracking, answer_with_reset(family));
}

// The original direction tells connections apart.
struct ByOriginal {
  static auto key(const Tuple& t) {
    return std::tie(t.source, t.destination, t.source_port, t.destination_port);
  }
  bool operator()(const Flow& a, const Flow& b) const { return key(a.original) < key(b.original); }
};
using FlowSet = std::set<Flow, ByOriginal>;

// Of a dump that starts over, flows may come twice.
Result<FlowSet> find_flows(Family family, const std::function<bool(const Flow&)>& doomed,
                           size_t limit) {
  FlowSet found;
  TRY(visit_flows(family, net::Protocol::Tcp, [&](const Flow& flow) {
    if (found.size() < limit && doomed(flow)) found.insert(flow);
  }));
  return found;
}

// The one's complement sum of 16-bit words (RFC 1071); all our pieces have an even size.
uint32_t add_words(uint32_t sum, std::span<const uint8_t> bytes) {
  for (size_t i = 0; i < bytes.size(); i += 2)
    sum += static_cast<uint32_t>(bytes[i] << 8 | bytes[i + 1]);
  return sum;
}

uint16_t checksum(const Tuple& ends, const tcphdr& tcp) {
  const size_t size = static_cast<size_t>(ends.source.bits()) / 8;
  uint32_t sum = IPPROTO_TCP + sizeof tcp;
  sum = add_words(sum, {ends.source.data(), size});
  sum = add_words(sum, {ends.destination.data(), size});
  sum = add_words(sum, {reinterpret_cast<const uint8_t*>(&tcp), sizeof tcp});
  sum = (sum >> 16) + (sum & 0xffff);
  sum += sum >> 16;
  return static_cast<uint16_t>(~sum);
}

tcphdr stray_acknowledgement(const Tuple& ends, uint32_t sequence) {
  tcphdr tcp{};
  tcp.th_sport = htons(ends.source_port);
  tcp.th_dport = htons(ends.destination_port);
  tcp.th_seq = htonl(sequence);
  tcp.th_off = sizeof tcp / 4;
  tcp.th_flags = TH_ACK;
  tcp.th_win = htons(1);
  tcp.th_sum = htons(checksum(ends, tcp));
  return tcp;
}

void send_v4(int raw, const Tuple& ends, const tcphdr& tcp) {
  struct {
    iphdr ip{};
    tcphdr tcp;
  } packet;
  packet.ip.version = 4;  // length, checksum and identification are the kernel's to fill in
  packet.ip.ihl = sizeof packet.ip / 4;
  packet.ip.ttl = IPDEFTTL;
  packet.ip.protocol = IPPROTO_TCP;
  std::memcpy(&packet.ip.saddr, ends.source.data(), sizeof packet.ip.saddr);
  std::memcpy(&packet.ip.daddr, ends.destination.data(), sizeof packet.ip.daddr);
  packet.tcp = tcp;
  sockaddr_in to{.sin_family = AF_INET, .sin_addr = {packet.ip.daddr}};
  ::sendto(raw, &packet, sizeof packet, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&to), sizeof to);
}

void send_v6(int raw, const Tuple& ends, const tcphdr& tcp) {
  struct {
    ip6_hdr ip{};
    tcphdr tcp;
  } packet;
  packet.ip.ip6_vfc = 6 << 4;
  packet.ip.ip6_plen = htons(sizeof tcp);
  packet.ip.ip6_nxt = IPPROTO_TCP;
  packet.ip.ip6_hlim = IPDEFTTL;
  std::memcpy(&packet.ip.ip6_src, ends.source.data(), sizeof packet.ip.ip6_src);
  std::memcpy(&packet.ip.ip6_dst, ends.destination.data(), sizeof packet.ip.ip6_dst);
  packet.tcp = tcp;
  sockaddr_in6 to{.sin6_family = AF_INET6, .sin6_addr = packet.ip.ip6_dst};
  ::sendto(raw, &packet, sizeof packet, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&to), sizeof to);
}

Tuple reversed(const Tuple& tuple) {
  return {tuple.destination, tuple.source, tuple.destination_port, tuple.source_port};
}

}  // namespace

Result<> clear_tcp_resets(Family family) {
  const auto deleted = delete_nft_table(family, kTcpResetTable);
  if (!deleted && deleted.error().code != base::ErrorCode::NotFound) return deleted;
  return {};
}

Result<TcpResetter> TcpResetter::open(Family family) {
  base::Fd raw(
      ::socket(family == Family::V4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
  if (!raw) return base::fail_errno("open raw socket (needs CAP_NET_RAW)");
  TcpResetter resetter(family, std::move(raw));
  TRY(resetter.arm({}));
  TRY(clear_tcp_resets(family));
  return resetter;
}

Result<std::vector<Flow>> TcpResetter::reset(const std::function<bool(const Flow&)>& doomed,
                                             size_t limit) {
  const FlowSet found = TRY(find_flows(family_, doomed, limit));
  if (found.empty()) return std::vector<Flow>{};
  std::vector<Flow> flows(found.begin(), found.end());
  // In this order: an end that sends in between meets the rule, and is not taken for the start of something new.
  TRY(arm(flows));
  const auto swept = sweep_flows(family_, net::Protocol::Tcp,
                                 [&](const Flow& flow) { return found.contains(flow); });
  // Whatever became of that: an entry that is gone is not found again.
  for (const Flow& flow : flows) {
    poke(reversed(flow.original));
    poke(reversed(flow.reply));
  }
  if (!swept) return std::unexpected(swept.error());
  if (swept->failure) return std::unexpected(*swept->failure);
  return flows;
}

Result<> TcpResetter::arm(const std::vector<Flow>& flows) const {
  Batch batch(family_, kTcpResetTable);
  add_rules(batch, family_);
  for (const Flow& flow : flows) {
    batch.add_element(kDoomed, {.key = key_of(flow.original)});
    batch.add_element(kDoomed, {.key = key_of(flow.reply)});
  }
  return batch.commit("nf_tables rules that reset connections");
}

// An acknowledgement that is out of the receiver's window is answered. One of two that are half the numbers apart is,
// for a window has at most a quarter of them. Not all arrive, and need not: the end may be gone.
void TcpResetter::poke(const Tuple& segment) const {
  for (const uint32_t sequence : kSequenceNumbers) {
    const tcphdr tcp = stray_acknowledgement(segment, sequence);
    if (family_ == Family::V4) {
      send_v4(raw_.get(), segment, tcp);
    } else {
      send_v6(raw_.get(), segment, tcp);
    }
  }
}

}  // namespace kernel
