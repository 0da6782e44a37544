// Datagrams that wait to be passed on: taken from a socket and sent on another, many with one system call.
//
// Belongs to one thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <memory>

#include "base/result.h"
#include "net/ip.h"
#include "relay/socket_address.h"

namespace relay {

class Datagrams {
 public:
  static constexpr size_t kMost = 32;
  static constexpr size_t kMaxBytes = size_t{64} * 1024;  // more than UDP can carry

  // Lets receive() find out which of our addresses a datagram came to.
  static base::Result<> ask_for_local_address(int socket, net::Family family);

  Datagrams();
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  struct Done {
    size_t count = 0;  // datagrams
    int error = 0;     // why it is not more; 0 if it is all
  };
  // Those that wait at the socket take the place of all that were here. Does not wait.
  Done receive(int socket);
  const SocketAddress& peer(size_t index) const { return names_[index]; }
  // Unspecified if nobody asked for it.
  net::IpAddr local(size_t index) const;

  // Sends datagrams first to last - 1 on a socket that is connected.
  Done send(int socket, size_t first, size_t last);
  // ... to this peer, from this address of ours unless it is unspecified.
  Done send(int socket, size_t first, size_t last, SocketAddress peer, const net::IpAddr& local);

 private:
  // Room for the one thing that is told about a datagram: its local address.
  struct Control {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(in6_pktinfo))> bytes;
  };
  static size_t write_local_address(Control& control, const net::IpAddr& local);
  Done send_with(int socket, size_t first, size_t last, const msghdr& common);

  std::unique_ptr<std::byte[]> bytes_;
  std::array<SocketAddress, kMost> names_;
  std::array<Control, kMost> controls_;
  std::array<iovec, kMost> parts_;
  std::array<mmsghdr, kMost> received_;
  std::array<mmsghdr, kMost> sent_;
};

}  // namespace relay
