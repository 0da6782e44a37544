#include "net/ip.h"

#include <arpa/inet.h>

#include <algorithm>

#include "base/text.h"

namespace net {

std::string_view name(Family family) { return family == Family::V4 ? "IPv4" : "IPv6"; }

std::string_view name(Protocol protocol) {
  switch (protocol) {
    case Protocol::Tcp:
      return "TCP";
    case Protocol::Udp:
      return "UDP";
    case Protocol::Sctp:
      return "SCTP";
  }
  return "";
}

std::string_view lower_name(Protocol protocol) {
  switch (protocol) {
    case Protocol::Tcp:
      return "tcp";
    case Protocol::Udp:
      return "udp";
    case Protocol::Sctp:
      return "sctp";
  }
  return "";
}

std::optional<Protocol> parse_protocol(std::string_view text) {
  for (const auto protocol : {Protocol::Tcp, Protocol::Udp, Protocol::Sctp}) {
    if (text == name(protocol)) return protocol;
  }
  return std::nullopt;
}

namespace {

std::optional<IpAddr> parse_v4(std::string_view text) {
  uint32_t address = 0;
  for (int left = 3; left >= 0; --left) {
    const size_t dot = text.find('.');
    if ((dot == std::string_view::npos) != (left == 0)) return std::nullopt;
    const auto octet = base::parse_number<uint32_t>(text.substr(0, dot));
    if (!octet || *octet > 255) return std::nullopt;
    address = address << 8 | *octet;
    text.remove_prefix(left == 0 ? text.size() : dot + 1);
  }
  return IpAddr::v4(address);
}

std::optional<IpAddr> parse_v6(std::string_view text) {
  if (text.size() >= INET6_ADDRSTRLEN || text.contains('\0')) return std::nullopt;
  char zero_terminated[INET6_ADDRSTRLEN] = {};
  text.copy(zero_terminated, text.size());
  std::array<uint8_t, 16> bytes{};
  if (inet_pton(AF_INET6, zero_terminated, bytes.data()) != 1) return std::nullopt;
  constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::equal(kMapped.begin(), kMapped.end(), bytes.begin())) {
    uint32_t address = 0;
    for (size_t i = 12; i < 16; ++i)
      address = address << 8 | bytes[i];
    return IpAddr::v4(address);
  }
  return IpAddr::v6(bytes);
}

}  // namespace

IpAddr IpAddr::v4(uint32_t host_order) {
  IpAddr ip;
  for (int i = 0; i < 4; ++i)
    ip.bytes_[i] = static_cast<uint8_t>(host_order >> (24 - 8 * i));
  return ip;
}

IpAddr IpAddr::v6(const std::array<uint8_t, 16>& bytes) {
  IpAddr ip;
  ip.family_ = Family::V6;
  ip.bytes_ = bytes;
  return ip;
}

std::optional<IpAddr> IpAddr::parse(std::string_view text) {
  return text.find(':') == std::string_view::npos ? parse_v4(text) : parse_v6(text);
}

bool IpAddr::is_loopback() const {
  if (family_ == Family::V4) return bytes_[0] == 127;
  return std::all_of(bytes_.begin(), bytes_.end() - 1, [](uint8_t b) { return b == 0; }) &&
         bytes_[15] == 1;
}

bool IpAddr::is_unspecified() const {
  return std::ranges::all_of(bytes_, [](uint8_t b) { return b == 0; });
}

bool IpAddr::is_link_local() const {
  if (family_ == Family::V4) return bytes_[0] == 169 && bytes_[1] == 254;
  return bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80;
}

void IpAddr::append_to(std::string& out) const {
  if (family_ == Family::V4) {
    for (int i = 0; i < 4; ++i) {
      if (i > 0) out += '.';
      base::append_number(out, bytes_[i]);
    }
    return;
  }
  char text[INET6_ADDRSTRLEN];
  out += inet_ntop(AF_INET6, bytes_.data(), text, sizeof text);
}

std::string IpAddr::str() const {
  std::string out;
  append_to(out);
  return out;
}

void append_endpoint(std::string& out, const IpAddr& ip, uint16_t port) {
  const bool brackets = ip.family() == Family::V6;
  if (brackets) out += '[';
  ip.append_to(out);
  if (brackets) out += ']';
  out += ':';
  base::append_number(out, port);
}

Cidr::Cidr(const IpAddr& base, int prefix_length) : base_(base), prefix_length_(prefix_length) {
  std::array<uint8_t, 16> bytes{};
  const int size = base.bits() / 8;
  for (int i = 0; i < size; ++i) {
    const int kept = std::clamp(prefix_length - 8 * i, 0, 8);
    bytes[i] = base.data()[i] & static_cast<uint8_t>(0xff00 >> kept);
  }
  if (base.family() == Family::V6) {
    base_ = IpAddr::v6(bytes);
  } else {
    base_ = IpAddr::v4(uint32_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3]);
  }
}

std::optional<Cidr> Cidr::parse(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto base = IpAddr::parse(text.substr(0, slash));
  const auto length = base::parse_number<int>(text.substr(slash + 1));
  if (!base || !length || *length < 0 || *length > base->bits()) return std::nullopt;
  return Cidr(*base, *length);
}

bool Cidr::contains(const IpAddr& ip) const {
  return ip.family() == family() && Cidr(ip, prefix_length_).base_ == base_;
}

void Cidr::append_to(std::string& out) const {
  base_.append_to(out);
  out += '/';
  base::append_number(out, prefix_length_);
}

std::string Cidr::str() const {
  std::string out;
  append_to(out);
  return out;
}

}  // namespace net
