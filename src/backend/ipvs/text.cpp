#include "backend/ipvs/text.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace ipvs {
namespace {

using kernel::SetEntry;
using kernel::SetType;

std::string_view option_of(net::Protocol protocol) {
  switch (protocol) {
    case net::Protocol::Tcp:
      return "-t ";
    case net::Protocol::Udp:
      return "-u ";
    case net::Protocol::Sctp:
      return "--sctp-service ";
  }
  return {};
}

void append_key(std::string& out, const kernel::ServerKey& key) {
  out += option_of(key.protocol);
  net::append_endpoint(out, key.ip, key.port);
}

void append_server(std::string& out, const kernel::VirtualServer& server) {
  out += "-A ";
  append_key(out, server.key);
  out += " -s ";
  out += server.scheduler;
  if (server.flags & kernel::VirtualServer::kPersistent) {
    out += " -p ";
    base::append_number(out, server.timeout_s);
  }
  if (server.flags & kernel::VirtualServer::kHashesPort) out += " -b mh-port";
  out += '\n';
}

void append_real(std::string& out, const kernel::ServerKey& key, const kernel::RealServer& real) {
  out += "-a ";
  append_key(out, key);
  out += " -r ";
  net::append_endpoint(out, real.ip, real.port);
  out += " -m -w ";
  base::append_number(out, real.weight);
  out += '\n';
}

void append_header(std::string& out, const std::string& set, SetType type, net::Family family) {
  out += "create " + set + ' ';
  out += kernel::name(type);
  if (type == SetType::BitmapPort) {
    out += " range 0-65535\n";
  } else {
    out += family == net::Family::V4 ? " family inet" : " family inet6";
    out += " hashsize 1024 maxelem 65536\n";
  }
}

void append_member(std::string& out, SetType type, const SetEntry& entry) {
  if (type == SetType::BitmapPort) return base::append_number(out, entry.port);
  entry.ip.append_to(out);
  if (type == SetType::HashIp) return;
  out += ',';
  out += net::lower_name(entry.protocol);
  out += ':';
  base::append_number(out, entry.port);
  if (type == SetType::HashIpPort) return;
  out += ',';
  // A network of one address is printed without its length.
  if (entry.other == net::Cidr::host(entry.other.base())) {
    entry.other.base().append_to(out);
  } else {
    entry.other.append_to(out);
  }
}

template <typename T>
std::vector<T> sorted(std::vector<T> list) {
  std::ranges::sort(list);
  return list;
}

}  // namespace

std::string servers_text(const Observed& state) {
  std::vector<const Observed::Server*> servers;
  servers.reserve(state.servers.size());
  for (const auto& server : state.servers)
    servers.push_back(&server);
  std::ranges::sort(servers, {}, [](const Observed::Server* one) -> const kernel::ServerKey& {
    return one->server.key;
  });
  std::string out;
  for (const auto* server : servers) {
    append_server(out, server->server);
    for (const auto& real : sorted(server->reals))
      append_real(out, server->server.key, real);
  }
  return out;
}

std::string sets_text(const Observed& state, net::Family family) {
  std::string out;
  for (const SetId set : all_sets()) {
    const auto& members = state.sets.at(static_cast<size_t>(set));
    if (!members) continue;
    const std::string name = set_name(set, family);
    append_header(out, name, type_of(set), family);
    for (const auto& member : sorted(*members)) {
      out += "add " + name + ' ';
      append_member(out, type_of(set), member);
      out += '\n';
    }
  }
  return out;
}

std::string addresses_text(const Observed& state) {
  std::string out;
  for (const auto& ip : sorted(state.bound)) {
    // The number of the device is the kernel's to choose.
    out += "-: ";
    out += kDevice;
    out += ip.family() == net::Family::V4 ? "    inet " : "    inet6 ";
    net::Cidr::host(ip).append_to(out);
    out += " scope global";
    // As the kernel does it: an address of IPv4 has a label.
    if (ip.family() == net::Family::V4) out += std::string(" ") + kDevice;
    out += '\n';
  }
  return out;
}

}  // namespace ipvs
