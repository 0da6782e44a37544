// conntrack_filler ENTRIES STALE VIP VALID GONE: empties the table of tracked connections of this network namespace and
// fills it with UDP flows to VIP:53. STALE of them, evenly spread, are answered by GONE:53, the others by VALID:53.
#include <charconv>
#include <cstdio>
#include <cstring>

#include "net/ip.h"
#include "support/conntrack_entries.h"

namespace {

constexpr uint32_t kPortsOfAClient = 50'000;
constexpr uint32_t kFirstClient = 0x0a640001;  // 10.100.0.1
constexpr uint16_t kPort = 53;

struct Wish {
  uint32_t entries = 0;
  uint32_t stale = 0;
  net::IpAddr vip, valid, gone;
};

bool parse(const char* text, uint32_t& out) {
  const char* end = text + std::strlen(text);
  return std::from_chars(text, end, out).ptr == end && out > 0;
}

bool parse(const char* text, net::IpAddr& out) {
  const auto address = net::IpAddr::parse(text);
  out = address.value_or(out);
  return address.has_value();
}

// A request to delete that names no entry means all of them.
base::Result<> empty() {
  kernel::netlink::Message message;
  message.close(
      message.add_netfilter(NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE, NLM_F_ACK, AF_INET));
  return kernel::netlink::transact(NETLINK_NETFILTER, message, "empty the table");
}

base::Result<> fill(const Wish& wish) {
  TRY(empty());
  auto filler = TRY(build::ConntrackFiller::open());
  for (uint32_t i = 0; i < wish.entries; ++i) {
    const net::Tuple original{net::IpAddr::v4(kFirstClient + i / kPortsOfAClient), wish.vip,
                              static_cast<uint16_t>(1024 + i % kPortsOfAClient), kPort};
    const bool stale = uint64_t{i} * wish.stale % wish.entries < wish.stale;
    TRY(filler.add(
        build::flow(net::Protocol::Udp, original, stale ? wish.gone : wish.valid, kPort)));
  }
  return filler.flush();
}

}  // namespace

int main(int argc, char** argv) {
  Wish wish;
  if (argc != 6 || !parse(argv[1], wish.entries) || !parse(argv[2], wish.stale) ||
      !parse(argv[3], wish.vip) || !parse(argv[4], wish.valid) || !parse(argv[5], wish.gone)) {
    std::fprintf(stderr, "usage: conntrack_filler ENTRIES STALE VIP VALID GONE\n");
    return 2;
  }
  if (const auto done = fill(wish); !done) {
    std::fprintf(stderr, "conntrack_filler: %s\n", done.error().text.c_str());
    return 1;
  }
  return 0;
}
