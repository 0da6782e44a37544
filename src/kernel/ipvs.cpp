#include "kernel/ipvs.h"

#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "kernel/attributes.h"
#include "kernel/ipvs_message.h"
#include "kernel/netlink_values.h"
#include "kernel/process.h"

namespace kernel {
namespace {

using base::ErrorCode;
using base::Result;
using netlink::Attributes;
using netlink::Conversation;
using netlink::Message;
using netlink::Requests;

Result<uint16_t> family_number(Conversation& conversation, const std::string& name) {
  Message message;
  nlmsghdr* header =
      put_generic(message.add(GENL_ID_CTRL, NLM_F_ACK), CTRL_CMD_GETFAMILY, /*version=*/1);
  mnl_attr_put_strz(header, CTRL_ATTR_FAMILY_NAME, name.c_str());
  message.close(header);
  uint16_t number = 0;
  TRY(conversation.ask(message, "generic netlink family " + name, [&](const nlmsghdr& answer) {
    for (const nlattr& attribute : Attributes::of(answer, sizeof(genlmsghdr))) {
      if (mnl_attr_get_type(&attribute) == CTRL_ATTR_FAMILY_ID)
        number = netlink::value<uint16_t>(attribute).value_or(number);
    }
  }));
  if (number == 0)
    return base::fail(ErrorCode::System, "generic netlink family " + name + ": has no number");
  return number;
}

// IPVS's number. Where it is missing, its module is asked for, once.
Result<uint16_t> ipvs_number(Conversation& conversation) {
  const auto number = family_number(conversation, IPVS_GENL_NAME);
  if (number || number.error().code != ErrorCode::NotFound) return number;
  // Whether that works out is seen by looking again.
  static_cast<void>(run({.argv = {"modprobe", "-va", "ip_vs"}}));
  return family_number(conversation, IPVS_GENL_NAME);
}

nlmsghdr* begin(Message& message, uint16_t family, uint8_t command, uint16_t flags) {
  return put_generic(message.add(family, flags), command, IPVS_GENL_VERSION);
}

// The number of the family is not known yet: finish() fills it in.
nlmsghdr* begin(Requests& requests, uint8_t command) {
  return put_generic(requests.add(/*type=*/0, /*flags=*/0), command, IPVS_GENL_VERSION);
}

template <typename Server>
void append(Requests& requests, uint8_t command, const Server& server) {
  nlmsghdr* header = begin(requests, command);
  put_server(header, server);
  requests.close(header);
}

void append(Requests& requests, uint8_t command, const ServerKey& server, const RealServer& real) {
  nlmsghdr* header = begin(requests, command);
  put_server(header, server);
  put_real_server(header, real);
  requests.close(header);
}

Requests finish(Requests requests, uint16_t family) {
  for (size_t place = 0; place < requests.size(); ++place)
    requests.at(place)->nlmsg_type = family;
  return requests;
}

// TEST-NET-2: documentation may have this address, a network may not. The original probes with the same.
VirtualServer probe(const std::string& scheduler) {
  return {.key = {.ip = net::IpAddr::v4(0xC6336400), .port = 20000},  // 198.51.100.0
          .scheduler = scheduler};
}

// Asked for a scheduler that it does not have, the kernel loads the module, and holds a lock of generic netlink the while.
// These two modules wait until no network namespace is being taken down; and that, in turn, may wait for the same lock, for
// ever. So the kernel must not be asked for them unless their module is there.
constexpr std::array kAwkward{"lblc", "lblcr"};

bool waits_for_namespaces(std::string_view scheduler) {
  return std::ranges::find(kAwkward, scheduler) != kAwkward.end();
}

bool is_loaded(const std::string& module) {
  return ::access(("/sys/module/" + module).c_str(), F_OK) == 0;
}

// By ourselves, without any lock; which needs a right that a daemon may have given up. True: the module is there, or built in.
bool load_scheduler(const std::string& name) {
  const std::string module = "ip_vs_" + name;
  if (is_loaded(module)) return true;
  const auto done = run({.argv = {"modprobe", "-q", module}});
  return done && done->ok();
}

}  // namespace

std::string ServerKey::str() const {
  std::string text;
  net::append_endpoint(text, ip, port);
  text += '/';
  text += net::name(protocol);
  return text;
}

Result<Ipvs> Ipvs::open() {
  auto conversation = TRY(Conversation::open(NETLINK_GENERIC));
  const auto family = ipvs_number(conversation);
  if (!family && family.error().code == ErrorCode::NotFound) {
    return base::fail(ErrorCode::Unsupported,
                      "this kernel has no IPVS; load it on the host with `modprobe ip_vs`");
  }
  if (!family) return std::unexpected(family.error());
  return Ipvs(std::move(conversation), *family);
}

Result<> Ipvs::flush() {
  Message message;
  message.close(begin(message, family_, IPVS_CMD_FLUSH, NLM_F_ACK));
  return conversation_.ask(message, "flush IPVS virtual servers");
}

Result<std::vector<VirtualServer>> Ipvs::servers(net::Family family) {
  Message message;
  message.close(begin(message, family_, IPVS_CMD_GET_SERVICE, NLM_F_DUMP));
  std::vector<VirtualServer> found;
  TRY(conversation_.ask(message, "list IPVS virtual servers", [&](const nlmsghdr& answer) {
    auto server = decode_server(answer);
    if (server && server->key.ip.family() == family) found.push_back(std::move(*server));
  }));
  // The kernel counts its way from piece to piece of a dump: one that comes meanwhile, in any network namespace, may
  // have it tell of another twice.
  std::ranges::sort(found, {}, &VirtualServer::key);
  const auto doubles = std::ranges::unique(found, {}, &VirtualServer::key);
  found.erase(doubles.begin(), doubles.end());
  return found;
}

Result<> Ipvs::find(const ServerKey& server) {
  Requests request;
  append(request, IPVS_CMD_GET_SERVICE, server);
  const std::string what = "find IPVS virtual server " + server.str();
  const int refused =
      TRY(netlink::try_one(conversation_, finish(std::move(request), family_), what));
  if (refused == ESRCH) return base::fail(ErrorCode::NotFound, what + ": there is none");
  if (refused != 0) return std::unexpected(base::errno_error(what, refused));
  return {};
}

Result<std::vector<RealServerState>> Ipvs::real_servers(const ServerKey& server) {
  Message message;
  nlmsghdr* header = begin(message, family_, IPVS_CMD_GET_DEST, NLM_F_DUMP);
  put_server(header, server);
  message.close(header);
  std::vector<RealServerState> found;
  TRY(conversation_.ask(message, "list IPVS real servers of " + server.str(),
                        [&](const nlmsghdr& answer) {
                          const auto real = decode_real_server(answer, server.ip.family());
                          if (real) found.push_back(*real);
                        }));
  // The kernel says the same of a virtual server without real ones and of one that is not there.
  if (found.empty()) TRY(find(server));
  return found;
}

Result<> Ipvs::set_timeouts(const Timeouts& timeouts) {
  Message message;
  nlmsghdr* header = begin(message, family_, IPVS_CMD_SET_CONFIG, NLM_F_ACK);
  mnl_attr_put_u32(header, IPVS_CMD_ATTR_TIMEOUT_TCP, timeouts.tcp);
  mnl_attr_put_u32(header, IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, timeouts.tcp_fin);
  mnl_attr_put_u32(header, IPVS_CMD_ATTR_TIMEOUT_UDP, timeouts.udp);
  message.close(header);
  return conversation_.ask(message, "set IPVS timeouts");
}

void Ipvs::Changes::add(const VirtualServer& server) {
  append(requests_, IPVS_CMD_NEW_SERVICE, server);
}
void Ipvs::Changes::update(const VirtualServer& server) {
  append(requests_, IPVS_CMD_SET_SERVICE, server);
}
void Ipvs::Changes::remove(const ServerKey& server) {
  append(requests_, IPVS_CMD_DEL_SERVICE, server);
}
void Ipvs::Changes::add(const ServerKey& server, const RealServer& real) {
  append(requests_, IPVS_CMD_NEW_DEST, server, real);
}
void Ipvs::Changes::update(const ServerKey& server, const RealServer& real) {
  append(requests_, IPVS_CMD_SET_DEST, server, real);
}
void Ipvs::Changes::remove(const ServerKey& server, const RealServer& real) {
  append(requests_, IPVS_CMD_DEL_DEST, server, real);
}

Result<std::vector<netlink::RequestFailure>> Ipvs::apply(Changes changes) {
  return conversation_.send_all(finish(std::move(changes.requests_), family_), "change IPVS");
}

Result<int> Ipvs::try_change(uint8_t command, const VirtualServer& server) {
  Requests request;
  append(request, command, server);
  return netlink::try_one(conversation_, finish(std::move(request), family_),
                          "probe IPVS scheduler " + server.scheduler);
}

Result<bool> Ipvs::has_scheduler(const std::string& name) {
  // "none" is a scheduler to the kernel: one that refuses every connection.
  if (name.empty() || name.size() >= IP_VS_SCHEDNAME_MAXLEN || name == "none") return false;
  if (!load_scheduler(name) && waits_for_namespaces(name)) return false;
  const VirtualServer server = probe(name);
  int refused = TRY(try_change(IPVS_CMD_NEW_SERVICE, server));
  if (refused == EEXIST) {  // by somebody who ended between the two requests
    TRY(try_change(IPVS_CMD_DEL_SERVICE, server));
    refused = TRY(try_change(IPVS_CMD_NEW_SERVICE, server));
  }
  if (refused == ENOENT) return false;
  if (refused != 0)
    return std::unexpected(base::errno_error("probe IPVS scheduler " + name, refused));
  TRY(try_change(IPVS_CMD_DEL_SERVICE, server));
  return true;
}

void Ipvs::load_awkward_schedulers() {
  for (const char* name : kAwkward)
    load_scheduler(name);
}

uint64_t Ipvs::sent() const { return conversation_.sent(); }

}  // namespace kernel
