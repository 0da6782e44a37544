#include "kernel/link.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include "kernel/attributes.h"
#include "kernel/netlink.h"

namespace kernel {
namespace {

using base::ErrorCode;
using base::Result;
using netlink::Attributes;
using netlink::Conversation;
using netlink::Message;

Message link_message(uint16_t type, unsigned index) {
  Message message;
  nlmsghdr* header = message.add(type, NLM_F_ACK);
  auto* link = static_cast<ifinfomsg*>(mnl_nlmsg_put_extra_header(header, sizeof(ifinfomsg)));
  link->ifi_family = AF_UNSPEC;
  link->ifi_index = static_cast<int>(index);
  message.close(header);
  return message;
}

// "dummy", "veth"; "device" for one of hardware, which has no kind.
std::string parse_kind(const nlmsghdr& message) {
  for (const nlattr& attribute : Attributes::of(message, sizeof(ifinfomsg))) {
    if (mnl_attr_get_type(&attribute) != IFLA_LINKINFO) continue;
    for (const nlattr& inner : Attributes::inside(attribute)) {
      const bool kind = mnl_attr_get_type(&inner) == IFLA_INFO_KIND;
      if (kind && mnl_attr_validate(&inner, MNL_TYPE_NUL_STRING) >= 0)
        return mnl_attr_get_str(&inner);
    }
  }
  return "device";
}

}  // namespace

Result<> delete_link(const std::string& name, const std::string& kind) {
  const unsigned index = ::if_nametoindex(name.c_str());
  if (index == 0) return base::fail(ErrorCode::NotFound, "no network device " + name);
  auto conversation = TRY(Conversation::open(NETLINK_ROUTE));
  std::string actual;
  TRY(conversation.ask(link_message(RTM_GETLINK, index), "look at network device " + name,
                       [&](const nlmsghdr& answer) { actual = parse_kind(answer); }));
  if (actual != kind) {
    return base::fail(ErrorCode::Invalid, "network device " + name + ": expect " + kind +
                                              " device, got device type: " + actual);
  }
  return conversation.ask(link_message(RTM_DELLINK, index), "delete network device " + name);
}

}  // namespace kernel
