// What Services put into the sets of the table. Pure: plans in, elements out.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "backend/nftables/layout.h"
#include "model/objects.h"
#include "net/ip.h"
#include "plan/plan.h"

namespace nftables {

// A key or a value as the kernel has it: fields in network order (marks: in the machine's), each padded to four bytes.
class Bytes {
 public:
  static constexpr size_t kMax = 40;

  void put(const net::IpAddr& ip);
  void put(net::Protocol protocol);
  void put_port(uint16_t port);
  void put_mark(uint32_t mark);
  // REQUIRES: there is room.
  void put_raw(std::span<const uint8_t> bytes) { append(bytes.data(), bytes.size()); }

  std::span<const uint8_t> view() const { return {bytes_.data(), size_}; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  auto operator<=>(const Bytes&) const = default;

 private:
  void append(const void* from, size_t size) {
    if (size == 0) return;
    std::memcpy(bytes_.data() + size_, from, size);
    size_ += static_cast<uint8_t>(size);
  }

  std::array<uint8_t, kMax> bytes_{};
  uint8_t size_ = 0;
};

// The longest comment that the program nft reads.
inline constexpr size_t kMaxComment = 128;

struct Element {
  SetId set{};
  Bytes key;
  Bytes key_end;             // the last of the range; empty but in sets of ranges
  Target target{};           // in maps of verdicts
  Bytes value;               // in maps of values
  std::string_view comment;  // cut to kMaxComment; belongs to the plan

  // Do they say the same, given that they have the same key?
  bool says_the_same(const Element& other) const {
    return target == other.target && value == other.value && comment == other.comment;
  }
};

// By what a client reaches a Service port: an address and a port, or a port of the node's addresses.
struct FrontEnd {
  net::IpAddr ip;  // 0.0.0.0 for a node port, whatever the family
  bool node_port = false;
  net::Protocol protocol = net::Protocol::Tcp;
  uint16_t port = 0;

  bool operator==(const FrontEnd&) const = default;
};
// As keys begin that belong to it.
Bytes key_of(const FrontEnd& front);
struct FrontEndHash {
  size_t operator()(const FrontEnd& front) const noexcept;
};

// All that one front end needs; elements of no two front ends have a key in common.
struct Front {
  FrontEnd id;
  uint64_t owner = 0;  // the Service port, hashed
  size_t first = 0;    // its elements are elements[first .. first + count)
  size_t count = 0;
};

// Front::owner of the port with this PortPlan::name.
uint64_t owner_of(std::string_view name, net::Protocol protocol);

// What one Service puts into the table. Refers to the plan.
struct ServiceElements {
  std::vector<Element> elements;
  std::vector<Front> fronts;
  std::vector<Element>
      shared;  // several Services may want the same: cluster-ips, hairpin-connections

  std::span<const Element> of(const Front& front) const {
    return std::span(elements).subspan(front.first, front.count);
  }
  void clear();
};

// Appends to `out`.
void render_service(const plan::ServicePlan& service, ServiceElements& out);

// Elements of the node itself: addresses of node ports, and CIDRs of Services.
std::vector<Element> render_node(const Options& options, std::span<const net::IpAddr> node_ports,
                                 std::span<const net::Cidr> service_cidrs);

}  // namespace nftables
