// Any bytes as what the kernel says about tracked connections, sets of nf_tables and of ipset, servers of IPVS and addresses
// of devices: no crash, no byte read that is not there. Connections, servers and members that come out can be told again
// with the same words.
//
// In the corpus, the files of kernel-* are what Linux 6.18 wrote.
#include <linux/ip_vs.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "kernel/conntrack_message.h"
#include "kernel/ipset_message.h"
#include "kernel/ipvs_message.h"
#include "kernel/link.h"
#include "kernel/nf_tables_read.h"
#include "kernel/nf_tables_watch.h"

namespace {

using kernel::TrackedFlow;

// The entry as the kernel would tell of it.
kernel::netlink::Message tell(const TrackedFlow& tracked) {
  kernel::netlink::Message message;
  const bool v4 = tracked.flow.original.source.family() == net::Family::V4;
  nlmsghdr* header = message.add_netfilter(NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW, 0,
                                           v4 ? AF_INET : AF_INET6);
  kernel::put_tuple(header, CTA_TUPLE_ORIG, tracked.flow.original, tracked.flow.protocol);
  kernel::put_tuple(header, CTA_TUPLE_REPLY, tracked.flow.reply, tracked.flow.protocol);
  mnl_attr_put_u32(header, CTA_ID, tracked.id);
  message.close(header);
  return message;
}

void check(const TrackedFlow& tracked) {
  const auto told = tell(tracked);
  CHECK(kernel::decode_flow(*reinterpret_cast<const nlmsghdr*>(told.bytes.data())) == tracked);
  CHECK(kernel::delete_request(tracked).used > 0);
}

void check(const kernel::VirtualServer& server) {
  // The kernel has no longer ones.
  if (server.scheduler.size() >= IP_VS_SCHEDNAME_MAXLEN) return;
  kernel::netlink::Message message;
  nlmsghdr* header = kernel::put_generic(message.add(0, 0), IPVS_CMD_NEW_SERVICE, 1);
  kernel::put_server(header, server);
  CHECK(kernel::decode_server(*header) == server);
}

void check(const kernel::RealServer& real) {
  kernel::netlink::Message message;
  nlmsghdr* header = kernel::put_generic(message.add(0, 0), IPVS_CMD_NEW_DEST, 1);
  kernel::put_real_server(header, real);
  CHECK(kernel::decode_real_server(*header, real.ip.family())->server == real);
}

void check(const kernel::SetEntry& entry, kernel::SetType type) {
  kernel::netlink::Message message;
  nlmsghdr* header = message.add_netfilter(0, 0, AF_INET);
  nlattr* list = mnl_attr_nest_start(header, IPSET_ATTR_ADT);
  kernel::put_entry(header, type, entry);
  mnl_attr_nest_end(header, list);
  CHECK(kernel::decode_members(*header, type) == std::vector{entry});
}

void check_ipvs(const nlmsghdr& message) {
  if (const auto server = kernel::decode_server(message)) check(*server);
  for (const auto family : net::kFamilies) {
    if (const auto real = kernel::decode_real_server(message, family)) check(real->server);
  }
}

void check_ipset(const nlmsghdr& message) {
  using kernel::SetType;
  kernel::decode_set(message);
  for (const auto type : {SetType::HashIp, SetType::HashIpPort, SetType::HashIpPortIp,
                          SetType::HashIpPortNet, SetType::BitmapPort}) {
    for (const auto& entry : kernel::decode_members(message, type))
      check(entry, type);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Exactly as large as the input, for the sanitizer to see the end of it, and aligned as a buffer of ours is.
  const std::vector<uint8_t> bytes(data, data + size);
  size_t at = 0;
  while (bytes.size() - at >= sizeof(nlmsghdr)) {
    const auto* message = reinterpret_cast<const nlmsghdr*>(bytes.data() + at);
    if (message->nlmsg_len < sizeof(nlmsghdr) || message->nlmsg_len > bytes.size() - at) break;
    if (const auto tracked = kernel::decode_flow(*message)) check(*tracked);
    kernel::nf_tables::parse_elements(*message);
    kernel::nf_tables::judge(*message, net::Family::V4, "kube-proxy");
    check_ipvs(*message);
    check_ipset(*message);
    kernel::decode_address(*message);
    at = std::min(bytes.size(), at + MNL_ALIGN(size_t{message->nlmsg_len}));
  }
  return 0;
}
