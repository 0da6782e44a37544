#include "relay/proxy_header.h"

#include <algorithm>

#include "base/check.h"

namespace relay {
namespace {

constexpr std::array<uint8_t, 12> kSignature{'\r', '\n', '\r', '\n', 0,   '\r',
                                             '\n', 'Q',  'U',  'I',  'T', '\n'};
constexpr uint8_t kVersion2Proxy = 0x21;
constexpr uint8_t kTcpOverIpv4 = 0x11;
constexpr uint8_t kTcpOverIpv6 = 0x21;

}  // namespace

ProxyHeader::ProxyHeader(const Peer& from, const Peer& to) {
  CHECK(from.ip.family() == to.ip.family());
  const auto address_bytes = static_cast<size_t>(from.ip.bits() / 8);
  const auto put = [this](const uint8_t* data, size_t count) {
    std::copy_n(reinterpret_cast<const std::byte*>(data), count, &bytes_[size_]);
    size_ += count;
  };
  const auto put_byte = [&put](uint8_t value) { put(&value, 1); };
  const auto put_number = [&put_byte](size_t value) {
    put_byte(static_cast<uint8_t>(value >> 8));
    put_byte(static_cast<uint8_t>(value));
  };
  put(kSignature.data(), kSignature.size());
  put_byte(kVersion2Proxy);
  put_byte(from.ip.family() == net::Family::V4 ? kTcpOverIpv4 : kTcpOverIpv6);
  put_number(2 * (address_bytes + sizeof from.port));
  put(from.ip.data(), address_bytes);
  put(to.ip.data(), address_bytes);
  put_number(from.port);
  put_number(to.port);
}

}  // namespace relay
