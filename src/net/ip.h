// IP addresses, CIDR blocks and protocols: plain values.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace net {

enum class Family : uint8_t { V4, V6 };
inline constexpr std::array kFamilies{Family::V4, Family::V6};

// "IPv4" or "IPv6", as Kubernetes writes it.
std::string_view name(Family family);

enum class Protocol : uint8_t { Tcp, Udp, Sctp };

// "TCP", "UDP", "SCTP".
std::string_view name(Protocol protocol);
// "tcp", "udp", "sctp": as rules have it.
std::string_view lower_name(Protocol protocol);
std::optional<Protocol> parse_protocol(std::string_view text);

class IpAddr {
 public:
  // 0.0.0.0
  IpAddr() = default;
  static IpAddr v4(uint32_t host_order);
  static IpAddr v6(const std::array<uint8_t, 16>& bytes);

  // Lenient as Kubernetes is: octets of IPv4 may have leading zeros and are decimal; an
  // IPv4-mapped IPv6 address is the IPv4 address. No zone, no white space.
  static std::optional<IpAddr> parse(std::string_view text);

  Family family() const { return family_; }
  bool is_loopback() const;
  bool is_unspecified() const;
  bool is_link_local() const;

  // Canonical: dotted decimal, or RFC 5952 (lower case, shortest form).
  void append_to(std::string& out) const;
  std::string str() const;

  // The bytes in network order: 4 or 16.
  const uint8_t* data() const { return bytes_.data(); }
  int bits() const { return family_ == Family::V4 ? 32 : 128; }

  auto operator<=>(const IpAddr&) const = default;

 private:
  Family family_ = Family::V4;
  std::array<uint8_t, 16> bytes_{};
};

// Appends ip:port, or [ip]:port for IPv6.
void append_endpoint(std::string& out, const IpAddr& ip, uint16_t port);

class Cidr {
 public:
  Cidr() = default;
  // Host bits are cleared.
  Cidr(const IpAddr& base, int prefix_length);
  // ADDRESS/LENGTH, address as in IpAddr::parse.
  static std::optional<Cidr> parse(std::string_view text);
  static Cidr host(const IpAddr& ip) { return Cidr(ip, ip.bits()); }

  Family family() const { return base_.family(); }
  const IpAddr& base() const { return base_; }
  int prefix_length() const { return prefix_length_; }
  bool contains(const IpAddr& ip) const;

  void append_to(std::string& out) const;
  std::string str() const;

  auto operator<=>(const Cidr&) const = default;

 private:
  IpAddr base_;
  int prefix_length_ = 0;
};

}  // namespace net
