#include "kernel/ipvs.h"

#include <linux/genetlink.h>
#include <linux/ip_vs.h>

#include <string>

#include "kernel/attributes.h"

namespace kernel {
namespace {

using base::ErrorCode;
using base::Result;
using netlink::Attributes;
using netlink::Conversation;
using netlink::Message;

nlmsghdr* add_generic(Message& message, uint16_t family, uint8_t command, uint8_t version,
                      uint16_t flags) {
  nlmsghdr* header = message.add(family, flags);
  auto* generic = static_cast<genlmsghdr*>(mnl_nlmsg_put_extra_header(header, sizeof(genlmsghdr)));
  generic->cmd = command;
  generic->version = version;
  return header;
}

Result<uint16_t> family_number(Conversation& conversation, const std::string& name) {
  Message message;
  nlmsghdr* header = add_generic(message, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1, NLM_F_ACK);
  mnl_attr_put_strz(header, CTRL_ATTR_FAMILY_NAME, name.c_str());
  message.close(header);
  uint16_t number = 0;
  TRY(conversation.ask(message, "generic netlink family " + name, [&](const nlmsghdr& answer) {
    for (const nlattr& attribute : Attributes::of(answer, sizeof(genlmsghdr))) {
      const bool id = mnl_attr_get_type(&attribute) == CTRL_ATTR_FAMILY_ID;
      if (id && mnl_attr_validate(&attribute, MNL_TYPE_U16) >= 0)
        number = mnl_attr_get_u16(&attribute);
    }
  }));
  if (number == 0)
    return base::fail(ErrorCode::System, "generic netlink family " + name + ": has no number");
  return number;
}

}  // namespace

Result<Ipvs> Ipvs::open() {
  auto conversation = TRY(Conversation::open(NETLINK_GENERIC));
  const auto family = family_number(conversation, IPVS_GENL_NAME);
  if (!family && family.error().code == ErrorCode::NotFound)
    return base::fail(ErrorCode::Unsupported, "this kernel has no IPVS (module ip_vs)");
  if (!family) return std::unexpected(family.error());
  return Ipvs(std::move(conversation), *family);
}

Result<> Ipvs::flush() {
  Message message;
  message.close(add_generic(message, family_, IPVS_CMD_FLUSH, IPVS_GENL_VERSION, NLM_F_ACK));
  return conversation_.ask(message, "flush IPVS virtual servers");
}

}  // namespace kernel
