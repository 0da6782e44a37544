// Entries for the kernel's table of tracked connections, as if packets had made them. Only for a network namespace
// of one's own.
#pragma once

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#include <functional>

#include "kernel/conntrack_message.h"
#include "kernel/netlink.h"

namespace build {

// 10.0.0.7:4711 -> 10.96.0.10:53, answered by 10.1.2.3:8053.
inline net::Flow flow(net::Protocol protocol, const net::Tuple& original,
                      const net::IpAddr& answers, uint16_t port) {
  return {protocol, original, {answers, original.source, port, original.source_port}};
}

// Adds entries many at a time. The first error stays; what is left in the buffer goes with flush().
class ConntrackFiller {
 public:
  static base::Result<ConntrackFiller> open() {
    return ConntrackFiller(TRY(kernel::netlink::Conversation::open(NETLINK_NETFILTER)));
  }

  // `more` may put further attributes, such as a zone.
  base::Result<> add(const net::Flow& flow, const std::function<void(nlmsghdr*)>& more = nullptr) {
    if (batch_.bytes.size() - batch_.used < kRoom) TRY(flush());
    const bool v4 = flow.original.source.family() == net::Family::V4;
    last_ = batch_.add_netfilter(NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW,
                                 NLM_F_CREATE | NLM_F_EXCL, v4 ? AF_INET : AF_INET6);
    kernel::put_tuple(last_, CTA_TUPLE_ORIG, flow.original, flow.protocol);
    kernel::put_tuple(last_, CTA_TUPLE_REPLY, flow.reply, flow.protocol);
    mnl_attr_put_u32(last_, CTA_TIMEOUT, htonl(kTimeoutSeconds));
    if (more) more(last_);
    batch_.close(last_);
    return {};
  }

  base::Result<> flush() {
    if (batch_.used == 0) return {};
    last_->nlmsg_flags |= NLM_F_ACK;
    const auto done = conversation_.ask(batch_, "add tracked connections");
    batch_.used = 0;
    return done;
  }

 private:
  static constexpr size_t kRoom = 512;  // for the largest of messages
  static constexpr uint32_t kTimeoutSeconds = 3600;

  explicit ConntrackFiller(kernel::netlink::Conversation conversation)
      : conversation_(std::move(conversation)) {}

  kernel::netlink::Conversation conversation_;
  kernel::netlink::Message batch_;
  nlmsghdr* last_ = nullptr;
};

}  // namespace build
