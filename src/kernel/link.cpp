#include "kernel/link.h"

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "kernel/attributes.h"
#include "kernel/netlink_values.h"

namespace kernel {
namespace {

using base::ErrorCode;
using base::Result;
using net::IpAddr;
using netlink::Attributes;
using netlink::Conversation;
using netlink::Message;
using netlink::Requests;

// A list that changes while it is read is asked for again.
constexpr int kListAttempts = 10;

// What one who brings up or takes down many devices does at once should fit.
constexpr int kQueueBytes = 4 * 1024 * 1024;
constexpr size_t kNewsBytes = size_t{32} * 1024;
constexpr std::string_view kHearing = "listen to changes of addresses";

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

// A request to make a device.
Message make_message(const std::string& name, const std::string& kind) {
  Message message;
  nlmsghdr* header = message.add(RTM_NEWLINK, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
  mnl_nlmsg_put_extra_header(header, sizeof(ifinfomsg));
  mnl_attr_put_strz(header, IFLA_IFNAME, name.c_str());
  nlattr* info = mnl_attr_nest_start(header, IFLA_LINKINFO);
  mnl_attr_put_strz(header, IFLA_INFO_KIND, kind.c_str());
  mnl_attr_nest_end(header, info);
  message.close(header);
  return message;
}

template <typename Messages>
nlmsghdr* begin_address(Messages& messages, uint16_t type, uint16_t flags, net::Family family) {
  nlmsghdr* header = messages.add(type, flags);
  auto* address = static_cast<ifaddrmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(ifaddrmsg)));
  address->ifa_family = netlink::address_family(family);
  return header;
}

void append(Requests& requests, uint16_t type, uint16_t flags, unsigned device, const IpAddr& ip) {
  nlmsghdr* header = begin_address(requests, type, flags, ip.family());
  auto* address = static_cast<ifaddrmsg*>(mnl_nlmsg_get_payload(header));
  address->ifa_prefixlen = static_cast<uint8_t>(ip.bits());
  address->ifa_index = device;
  netlink::put_address(header, IFA_LOCAL, ip);
  netlink::put_address(header, IFA_ADDRESS, ip);
  requests.close(header);
}

// Is it as it should be, in spite of this answer?
bool is_done_already(bool coming, int number) {
  if (coming) return number == EEXIST;
  // The last two: IPv6, or the device as a whole, is gone.
  return number == EADDRNOTAVAIL || number == ENXIO || number == ENODEV;
}

}  // namespace

std::optional<DeviceAddress> decode_address(const nlmsghdr& message) {
  if (message.nlmsg_type != RTM_NEWADDR && message.nlmsg_type != RTM_DELADDR) return std::nullopt;
  if (mnl_nlmsg_get_payload_len(&message) < sizeof(ifaddrmsg)) return std::nullopt;
  const auto* header = static_cast<const ifaddrmsg*>(mnl_nlmsg_get_payload(&message));
  const auto family = netlink::family_of(header->ifa_family);
  if (!family) return std::nullopt;
  // Between two points, ADDRESS is the other end.
  std::optional<IpAddr> local;
  std::optional<IpAddr> any;
  for (const nlattr& attribute : Attributes::of(message, sizeof(ifaddrmsg))) {
    const uint16_t type = mnl_attr_get_type(&attribute);
    if (type == IFA_LOCAL) local = netlink::address_value(attribute, *family);
    if (type == IFA_ADDRESS) any = netlink::address_value(attribute, *family);
  }
  if (!local && !any) return std::nullopt;
  return DeviceAddress{header->ifa_index, local ? *local : *any};
}

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

Result<unsigned> ensure_link(const std::string& name, const std::string& kind) {
  if (const unsigned index = ::if_nametoindex(name.c_str()); index != 0) return index;
  const std::string what = "make network device " + name;
  auto conversation = TRY(Conversation::open(NETLINK_ROUTE));
  const auto made = conversation.ask(make_message(name, kind), what);
  if (!made && made.error().code == ErrorCode::Unsupported) {
    return base::fail(ErrorCode::Unsupported,
                      what + ": this kernel has no " + kind + " devices (module " + kind + ")");
  }
  // Somebody else may have been faster.
  if (!made && made.error().code != ErrorCode::Exists) return std::unexpected(made.error());
  const unsigned index = ::if_nametoindex(name.c_str());
  if (index == 0) return base::fail_errno(what);
  return index;
}

Result<DeviceAddresses> DeviceAddresses::open(net::Family family) {
  return DeviceAddresses(TRY(Conversation::open(NETLINK_ROUTE)), family);
}

Result<std::vector<DeviceAddress>> DeviceAddresses::list() {
  Message message;
  message.close(begin_address(message, RTM_GETADDR, NLM_F_DUMP, family_));
  for (int attempt = 1;; ++attempt) {
    std::vector<DeviceAddress> found;
    const auto done = conversation_.ask(message, "list addresses", [&](const nlmsghdr& answer) {
      const auto address = decode_address(answer);
      if (address && address->ip.family() == family_) found.push_back(*address);
    });
    if (done) return found;
    // Devices of pods come and go.
    if (done.error().code != ErrorCode::Busy || attempt == kListAttempts)
      return std::unexpected(done.error());
  }
}

Result<std::vector<DeviceAddresses::Failure>> DeviceAddresses::change(
    unsigned device, const std::vector<IpAddr>& come, const std::vector<IpAddr>& go) {
  Requests requests;
  for (const IpAddr& ip : come)
    append(requests, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, device, ip);
  for (const IpAddr& ip : go)
    append(requests, RTM_DELADDR, 0, device, ip);
  const auto refused = TRY(conversation_.send_all(std::move(requests), "change addresses"));
  std::vector<Failure> failures;
  for (const auto& [place, number] : refused) {
    const bool coming = place < come.size();
    if (is_done_already(coming, number)) continue;
    failures.push_back({coming ? come[place] : go[place - come.size()], number});
  }
  return failures;
}

Result<AddressNews> AddressNews::open(net::Family family) {
  auto conversation = TRY(Conversation::open(NETLINK_ROUTE));
  const int group = family == net::Family::V4 ? RTNLGRP_IPV4_IFADDR : RTNLGRP_IPV6_IFADDR;
  const int fd = mnl_socket_get_fd(conversation.socket());
  // Not getting it means to be told of an overrun sooner.
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &kQueueBytes, sizeof kQueueBytes);
  if (::setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) != 0)
    return base::fail_errno(kHearing);
  return AddressNews(std::move(conversation), family);
}

int AddressNews::fd() const { return mnl_socket_get_fd(conversation_.socket()); }

Result<std::vector<AddressNews::News>> AddressNews::drain() {
  alignas(nlmsghdr) std::array<char, kNewsBytes> buffer;
  std::vector<News> news;
  bool lost = false;
  while (true) {
    const ssize_t size = ::recv(fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) break;
    if (size < 0 && errno != ENOBUFS) return base::fail_errno(kHearing);
    lost = lost || size < 0;
    int left = static_cast<int>(size);
    for (auto* message = reinterpret_cast<nlmsghdr*>(buffer.data()); mnl_nlmsg_ok(message, left);
         message = mnl_nlmsg_next(message, &left)) {
      const auto address = decode_address(*message);
      if (address && address->ip.family() == family_)
        news.push_back({*address, message->nlmsg_type == RTM_DELADDR});
    }
  }
  if (lost) return base::fail(ErrorCode::Lost, std::string(kHearing) + ": some were missed");
  return news;
}

}  // namespace kernel
