#include "kernel/route.h"

#include <linux/rtnetlink.h>
#include <net/if.h>

#include <array>
#include <optional>

#include "kernel/attributes.h"
#include "kernel/netlink.h"
#include "kernel/netlink_values.h"

namespace kernel {
namespace {

netlink::Message question(const net::IpAddr& ip) {
  netlink::Message message;
  nlmsghdr* header = message.add(RTM_GETROUTE, NLM_F_ACK);
  auto* route = static_cast<rtmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(rtmsg)));
  route->rtm_family = netlink::address_family(ip.family());
  route->rtm_dst_len = static_cast<uint8_t>(ip.bits());
  netlink::put_address(header, RTA_DST, ip);
  message.close(header);
  return message;
}

std::optional<uint32_t> device_in(const nlmsghdr& answer) {
  if (answer.nlmsg_type != RTM_NEWROUTE) return std::nullopt;
  for (const nlattr& attribute : netlink::Attributes::of(answer, sizeof(rtmsg)))
    if (mnl_attr_get_type(&attribute) == RTA_OIF) return netlink::value<uint32_t>(attribute);
  return std::nullopt;
}

}  // namespace

base::Result<std::string> device_towards(const net::IpAddr& ip) {
  const std::string what = "find the route to " + ip.str();
  auto conversation = TRY(netlink::Conversation::open(NETLINK_ROUTE));
  std::optional<uint32_t> device;
  TRY(conversation.ask(question(ip), what,
                       [&](const nlmsghdr& answer) { device = device_in(answer); }));
  std::array<char, IF_NAMESIZE> name{};
  if (!device || ::if_indextoname(*device, name.data()) == nullptr)
    return base::fail(base::ErrorCode::NotFound, what + ": it leads to no device");
  return std::string(name.data());
}

}  // namespace kernel
