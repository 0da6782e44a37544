// Any bytes as what the kernel says about tracked connections, or about sets of nf_tables: no crash, no byte read that is
// not there; and connections that come out can be asked for again, and told again with the same words.
//
// In the corpus, the files of kernel-* are what Linux 6.18 wrote.
#include <linux/netfilter/nfnetlink_conntrack.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "kernel/conntrack_message.h"
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
    at = std::min(bytes.size(), at + MNL_ALIGN(size_t{message->nlmsg_len}));
  }
  return 0;
}
