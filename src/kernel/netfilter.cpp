#include "kernel/netfilter.h"

#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_acct.h>
#include <sys/socket.h>

#include "kernel/attributes.h"
#include "kernel/netlink.h"
#include "kernel/nf_tables.h"

namespace kernel {
namespace {

using base::Result;
using netlink::Message;

constexpr uint16_t accounting(uint16_t message) { return NFNL_SUBSYS_ACCT << 8 | message; }
constexpr uint16_t nf_tables(uint16_t message) { return NFNL_SUBSYS_NFTABLES << 8 | message; }

// The accounting subsystem wants AF_NETLINK in its generic header.
Message counter_request(uint16_t type, uint16_t flags, const std::string& name) {
  Message message;
  nlmsghdr* header =
      message.add_netfilter(accounting(type), static_cast<uint16_t>(NLM_F_ACK | flags), AF_NETLINK);
  mnl_attr_put_strz(header, NFACCT_NAME, name.c_str());
  message.close(header);
  return message;
}

Result<> counter_message(uint16_t type, uint16_t flags, const std::string& name) {
  return netlink::transact(NETLINK_NETFILTER, counter_request(type, flags, name), "nfacct " + name);
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

Result<uint64_t> read_counter(const std::string& name) {
  auto conversation = TRY(netlink::Conversation::open(NETLINK_NETFILTER));
  uint64_t packets = 0;
  const auto read = [&](const nlmsghdr& answer) {
    for (const nlattr& attribute : netlink::Attributes::of(answer, sizeof(nfgenmsg))) {
      if (mnl_attr_get_type(&attribute) == NFACCT_PKTS &&
          mnl_attr_validate(&attribute, MNL_TYPE_U64) >= 0)
        packets = be64toh(mnl_attr_get_u64(&attribute));
    }
  };
  TRY(conversation.ask(counter_request(NFNL_MSG_ACCT_GET, 0, name), "nfacct " + name, read));
  return packets;
}

Result<> ensure_counter(const std::string& name) {
  if (counter_exists(name)) return {};
  const auto made = counter_message(NFNL_MSG_ACCT_NEW, NLM_F_CREATE | NLM_F_EXCL, name);
  if (!made && made.error().code == base::ErrorCode::Exists) return {};
  return made;
}

Result<> delete_nft_table(net::Family family, const std::string& name) {
  nf_tables::Batch batch(family, name);
  batch.delete_table();
  return batch.commit("delete nftables table " + name);
}

}  // namespace kernel
