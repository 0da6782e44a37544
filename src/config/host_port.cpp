#include "config/host_port.h"

#include "net/ip.h"

namespace config {
namespace {

std::unexpected<base::Error> fail(std::string_view address, std::string_view why) {
  return base::fail(base::ErrorCode::Invalid,
                    "address " + std::string(address) + ": " + std::string(why));
}

base::Result<HostPort> split_bracketed(std::string_view address, size_t last_colon) {
  const size_t close = address.find(']');
  if (close == std::string_view::npos) return fail(address, "missing ']' in address");
  if (close + 1 == address.size()) return fail(address, "missing port in address");
  if (close + 1 != last_colon) {
    return fail(address, address[close + 1] == ':' ? "too many colons in address"
                                                   : "missing port in address");
  }
  return HostPort{address.substr(1, close - 1), address.substr(last_colon + 1)};
}

}  // namespace

base::Result<HostPort> split_host_port(std::string_view address) {
  const size_t last_colon = address.rfind(':');
  if (last_colon == std::string_view::npos) return fail(address, "missing port in address");
  HostPort parts{address.substr(0, last_colon), address.substr(last_colon + 1)};
  size_t brackets_from = 0;
  size_t closing_from = 0;
  if (address[0] == '[') {
    parts = TRY(split_bracketed(address, last_colon));
    brackets_from = 1;
    closing_from = address.find(']') + 1;
  } else if (parts.host.find(':') != std::string_view::npos) {
    return fail(address, "too many colons in address");
  }
  if (address.find('[', brackets_from) != std::string_view::npos) {
    return fail(address, "unexpected '[' in address");
  }
  if (address.find(']', closing_from) != std::string_view::npos) {
    return fail(address, "unexpected ']' in address");
  }
  return parts;
}

std::string with_default_port(const std::string& address, int32_t port) {
  if (split_host_port(address)) return address;
  const auto ip = net::IpAddr::parse(address);
  if (!ip) return address;
  const std::string suffix = ":" + std::to_string(port);
  // Parity: an IPv4-mapped address counts as IPv4 and gets no brackets.
  return ip->family() == net::Family::V4 ? address + suffix : "[" + address + "]" + suffix;
}

}  // namespace config
