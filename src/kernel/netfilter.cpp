#include "kernel/netfilter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_acct.h>
#include <sys/socket.h>

#include <array>
#include <memory>

#include <libmnl/libmnl.h>

namespace kernel {
namespace {

using base::Result;

constexpr uint32_t kSequence = 1;

using Socket = std::unique_ptr<mnl_socket, decltype(&mnl_socket_close)>;

Result<Socket> open_socket() {
  Socket socket(mnl_socket_open(NETLINK_NETFILTER), &mnl_socket_close);
  if (socket == nullptr) return base::fail_errno("open netlink socket");
  if (mnl_socket_bind(socket.get(), 0, MNL_SOCKET_AUTOPID) < 0)
    return base::fail_errno("bind netlink socket");
  return socket;
}

struct Message {
  alignas(nlmsghdr) std::array<char, 4096> bytes{};
  size_t used = 0;

  // Appends a message of netfilter; attributes go behind it.
  nlmsghdr* add(uint16_t type, uint16_t flags, uint8_t family, uint16_t resource = 0) {
    nlmsghdr* header = mnl_nlmsg_put_header(bytes.data() + used);
    header->nlmsg_type = type;
    header->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    header->nlmsg_seq = kSequence;
    auto* generic = static_cast<nfgenmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(nfgenmsg)));
    generic->nfgen_family = family;
    generic->version = NFNETLINK_V0;
    generic->res_id = htons(resource);
    return header;
  }
  void close(const nlmsghdr* header) { used += MNL_ALIGN(header->nlmsg_len); }
};

// Sends and waits for the acknowledgement; the kernel's errno becomes the error.
Result<> transact(const Message& message, const std::string& what) {
  const Socket socket = TRY(open_socket());
  if (mnl_socket_sendto(socket.get(), message.bytes.data(), message.used) < 0)
    return base::fail_errno(what);
  std::array<char, 8192> answer;
  const unsigned port = mnl_socket_get_portid(socket.get());
  while (true) {
    const ssize_t size = mnl_socket_recvfrom(socket.get(), answer.data(), answer.size());
    if (size < 0) return base::fail_errno(what);
    const int state =
        mnl_cb_run(answer.data(), static_cast<size_t>(size), kSequence, port, nullptr, nullptr);
    if (state < 0) return base::fail_errno(what);
    if (state == MNL_CB_STOP) return {};
  }
}

constexpr uint16_t accounting(uint16_t message) { return NFNL_SUBSYS_ACCT << 8 | message; }
constexpr uint16_t nf_tables(uint16_t message) { return NFNL_SUBSYS_NFTABLES << 8 | message; }

// The accounting subsystem wants AF_NETLINK in its generic header.
Result<> counter_message(uint16_t type, uint16_t flags, const std::string& name) {
  Message message;
  nlmsghdr* header =
      message.add(accounting(type), static_cast<uint16_t>(NLM_F_ACK | flags), AF_NETLINK);
  mnl_attr_put_strz(header, NFACCT_NAME, name.c_str());
  message.close(header);
  return transact(message, "nfacct " + name);
}

}  // namespace

Result<> probe_counters() {
  // Any name will do: "not there" is as good an answer as the counter.
  const auto found = counter_message(NFNL_MSG_ACCT_GET, 0, "IMayExist");
  if (found || found.error().code == base::ErrorCode::NotFound) return {};
  if (found.error().code == base::ErrorCode::Permission) return found;
  return base::fail(base::ErrorCode::Unsupported, found.error().text);
}

bool counter_exists(const std::string& name) {
  return counter_message(NFNL_MSG_ACCT_GET, 0, name).has_value();
}

Result<> ensure_counter(const std::string& name) {
  if (counter_exists(name)) return {};
  const auto made = counter_message(NFNL_MSG_ACCT_NEW, NLM_F_CREATE | NLM_F_EXCL, name);
  if (!made && made.error().code == base::ErrorCode::Exists) return {};
  return made;
}

Result<> delete_nft_table(net::Family family, const std::string& name) {
  Message message;
  message.close(message.add(NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
  const uint8_t proto = family == net::Family::V4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
  nlmsghdr* header = message.add(nf_tables(NFT_MSG_DELTABLE), NLM_F_ACK, proto);
  mnl_attr_put_strz(header, NFTA_TABLE_NAME, name.c_str());
  message.close(header);
  message.close(message.add(NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
  return transact(message, "delete nftables table " + name);
}

}  // namespace kernel
