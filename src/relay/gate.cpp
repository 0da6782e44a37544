#include "relay/gate.h"

#include <errno.h>
#include <net/if_arp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

namespace relay {
namespace {

using base::ErrorCode;
using base::Result;
using net::Cidr;
using net::Family;

constexpr uint32_t kEverybody = UINT32_MAX;  // bytes of the packet that are kept: all
constexpr uint32_t kNobody = 0;

constexpr uint32_t kWordBits = 32;

constexpr uint32_t offset(int base, int within) { return static_cast<uint32_t>(base + within); }
constexpr uint32_t source_offset(Family family) {
  return offset(SKF_NET_OFF, family == Family::V4 ? 12 : 8);
}
constexpr uint32_t kDeviceType = offset(SKF_AD_OFF, SKF_AD_HATYPE);

uint32_t words(Family family) { return family == Family::V4 ? 1 : 4; }

// The word of the address with this number, as a load gives it: in host order.
uint32_t word(const net::IpAddr& ip, uint32_t number) {
  const uint8_t* bytes = ip.data() + size_t{4} * number;
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

// Those bits of that word that count in a prefix of this length.
uint32_t mask(uint32_t prefix_length, uint32_t number) {
  const uint32_t before = kWordBits * number;
  if (prefix_length <= before) return 0;
  const uint32_t bits = std::min(prefix_length - before, kWordBits);
  return UINT32_MAX << (kWordBits - bits);
}

// Builds the program rule by rule. A packet goes from one rule to the next, or is dropped at the end of one.
//
// The source address is read once and kept in the machine's memory: from there a load costs next to nothing.
class Builder {
 public:
  explicit Builder(Family family) : family_(family) {
    for (uint32_t i = 0; i < words(family); ++i) {
      add(BPF_LD | BPF_W | BPF_ABS, source_offset(family) + 4 * i);
      add(BPF_ST, i);
    }
  }

  void require(const Sources& sources) {
    if (sources.this_node) pass_loopback();
    if (family_ == Family::V4)
      pass_v4(sources.networks);
    else
      pass_v6(sources.networks);
    add(BPF_RET | BPF_K, kNobody);
    for (const size_t jump : std::exchange(to_next_rule_, {}))
      program_[jump].k = static_cast<uint32_t>(program_.size() - jump - 1);
  }

  std::vector<sock_filter> take() {
    add(BPF_RET | BPF_K, kEverybody);
    return std::move(program_);
  }

 private:
  // Where this leads is known at the end of the rule. Only such a jump without a condition goes further than 255 instructions.
  void pass() {
    to_next_rule_.push_back(program_.size());
    add(BPF_JMP | BPF_JA, 0);
  }

  // By the type of the device: there is only one of this type.
  void pass_loopback() {
    add(BPF_LD | BPF_W | BPF_ABS, kDeviceType);
    add(BPF_JMP | BPF_JEQ | BPF_K, ARPHRD_LOOPBACK, 0, 1);
    pass();
  }

  // Networks of one length are compared one after the other: an instruction for each.
  void pass_v4(const std::vector<Cidr>& networks) {
    std::map<int, std::vector<uint32_t>> by_length;
    for (const Cidr& network : networks) {
      if (network.family() == family_)
        by_length[network.prefix_length()].push_back(word(network.base(), 0));
    }
    for (const auto& [length, bases] : by_length) {
      add(BPF_LD | BPF_MEM, 0);
      add(BPF_ALU | BPF_AND | BPF_K, mask(static_cast<uint32_t>(length), 0));
      pass_any(bases);
    }
  }

  void pass_any(std::span<const uint32_t> values) {
    constexpr size_t kReach = 200;
    while (!values.empty()) {
      const auto part = values.first(std::min(values.size(), kReach));
      values = values.subspan(part.size());
      for (size_t left = part.size(); const uint32_t value : part)
        add(BPF_JMP | BPF_JEQ | BPF_K, value, static_cast<uint8_t>(left--), 0);
      add(BPF_JMP | BPF_JA, 1);
      pass();
    }
  }

  void pass_v6(const std::vector<Cidr>& networks) {
    for (const Cidr& network : networks) {
      if (network.family() == family_) pass_network(network);
    }
  }

  void pass_network(const Cidr& network) {
    std::vector<size_t> comparisons;
    for (uint32_t i = 0; i < words(family_); ++i) {
      const uint32_t bits = mask(static_cast<uint32_t>(network.prefix_length()), i);
      if (bits == 0) break;
      add(BPF_LD | BPF_MEM, i);
      if (bits != UINT32_MAX) add(BPF_ALU | BPF_AND | BPF_K, bits);
      comparisons.push_back(program_.size());
      add(BPF_JMP | BPF_JEQ | BPF_K, word(network.base(), i));
    }
    pass();
    for (const size_t comparison : comparisons)
      program_[comparison].jf = static_cast<uint8_t>(program_.size() - comparison - 1);
  }

  void add(uint16_t code, uint32_t value, uint8_t if_true = 0, uint8_t if_false = 0) {
    program_.push_back({code, if_true, if_false, value});
  }

  Family family_;
  std::vector<sock_filter> program_;
  std::vector<size_t> to_next_rule_;
};

Result<> detach(int socket) {
  const int ignored = 0;
  const int done = ::setsockopt(socket, SOL_SOCKET, SO_DETACH_FILTER, &ignored, sizeof ignored);
  if (done != 0 && errno != ENOENT) return base::fail_errno("socket filter");
  return {};
}

Result<> attach(std::vector<sock_filter>& instructions, int socket) {
  const sock_fprog program{static_cast<uint16_t>(instructions.size()), instructions.data()};
  if (::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0) return {};
  if (errno == ENOMEM) {
    return base::fail(ErrorCode::System,
                      "socket filter: the kernel gives no memory to so many sources; "
                      "net.core.optmem_max limits it");
  }
  return base::fail_errno("socket filter");
}

}  // namespace

Result<std::vector<sock_filter>> compile(const Gate& gate, Family family) {
  if (gate.rules.empty()) return {};
  Builder builder(family);
  for (const Sources& rule : gate.rules)
    builder.require(rule);
  auto program = builder.take();
  if (program.size() > BPF_MAXINSNS) {
    return base::fail(ErrorCode::Invalid,
                      "too many sources: their filter has " + std::to_string(program.size()) +
                          " instructions, and the kernel takes " + std::to_string(BPF_MAXINSNS));
  }
  return program;
}

Result<> apply(const Gate& gate, Family family, int socket) {
  auto program = TRY(compile(gate, family));
  return program.empty() ? detach(socket) : attach(program, socket);
}

}  // namespace relay
