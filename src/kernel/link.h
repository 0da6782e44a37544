// Network devices and their addresses, over netlink.
//
// Blocks; used on a sync thread and by one-shot commands.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/netlink.h"
#include "net/ip.h"

namespace kernel {

// Removes the device `name` if it is of that kind ("dummy"). NotFound if there is none; Invalid, and nothing is
// removed, if it is of another kind.
base::Result<> delete_link(const std::string& name, const std::string& kind);

// The number of the device `name`, which is made if there is none. Unsupported, naming the module, if this kernel has
// no devices of that kind. One of another kind that is there is taken as it is.
base::Result<unsigned> ensure_link(const std::string& name, const std::string& kind);

// An address of a device. What is not ours may have any length of prefix.
struct DeviceAddress {
  unsigned device = 0;
  net::IpAddr ip;

  auto operator<=>(const DeviceAddress&) const = default;
};

// What one message says of an address that there is, that comes or goes. Exposed for tests: never reads beyond it.
std::optional<DeviceAddress> decode_address(const nlmsghdr& message);

// The addresses of one family, and a way to change them.
class DeviceAddresses {
 public:
  static base::Result<DeviceAddresses> open(net::Family family);

  // Of all devices, in the kernel's order. One dump.
  base::Result<std::vector<DeviceAddress>> list();

  // Adds `come` to the device and removes `go` from it, each with the full length of its prefix. What is there already,
  // or gone already, is no failure. Returns those that failed, with the kernel's error.
  struct Failure {
    net::IpAddr ip;
    int number = 0;  // errno
  };
  base::Result<std::vector<Failure>> change(unsigned device, const std::vector<net::IpAddr>& come,
                                            const std::vector<net::IpAddr>& go);

  // Messages sent so far.
  uint64_t sent() const { return conversation_.sent(); }

 private:
  DeviceAddresses(netlink::Conversation conversation, net::Family family)
      : conversation_(std::move(conversation)), family_(family) {}

  netlink::Conversation conversation_;
  net::Family family_;
};

// Hears of addresses of one family that come and go, on any device.
class AddressNews {
 public:
  static base::Result<AddressNews> open(net::Family family);

  // Readable when there is news.
  int fd() const;

  struct News {
    DeviceAddress address;
    bool gone = false;
  };
  // All news there is; never blocks. Lost: some was missed, and everything has to be looked at.
  base::Result<std::vector<News>> drain();

 private:
  explicit AddressNews(netlink::Conversation conversation, net::Family family)
      : conversation_(std::move(conversation)), family_(family) {}

  netlink::Conversation conversation_;
  net::Family family_;
};

}  // namespace kernel
