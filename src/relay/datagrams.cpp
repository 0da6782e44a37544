#include "relay/datagrams.h"

#include <errno.h>

#include <algorithm>
#include <cstring>

namespace relay {
namespace {

template <typename T>
T read_control(const cmsghdr* header) {
  T value;
  std::memcpy(&value, CMSG_DATA(header), sizeof value);
  return value;
}

template <typename T>
size_t write_control(void* buffer, int level, int type, const T& value) {
  cmsghdr header{.cmsg_len = CMSG_LEN(sizeof value), .cmsg_level = level, .cmsg_type = type};
  std::memcpy(buffer, &header, sizeof header);
  std::memcpy(static_cast<std::byte*>(buffer) + CMSG_LEN(0), &value, sizeof value);
  return CMSG_SPACE(sizeof value);
}

net::IpAddr ip_of(const in_pktinfo& info) {
  return net::IpAddr::v4(ntohl(info.ipi_spec_dst.s_addr));
}

net::IpAddr ip_of(const in6_pktinfo& info) {
  std::array<uint8_t, 16> bytes;
  std::ranges::copy(info.ipi6_addr.s6_addr, bytes.begin());
  return net::IpAddr::v6(bytes);
}

}  // namespace

base::Result<> Datagrams::ask_for_local_address(int socket, net::Family family) {
  const int on = 1;
  const int done = family == net::Family::V4
                       ? ::setsockopt(socket, IPPROTO_IP, IP_PKTINFO, &on, sizeof on)
                       : ::setsockopt(socket, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
  if (done != 0) return base::fail_errno("addresses of datagrams");
  return {};
}

// Not initialised: what is never filled takes no memory.
Datagrams::Datagrams() : bytes_(std::make_unique_for_overwrite<std::byte[]>(kMost * kMaxBytes)) {
  for (size_t i = 0; i < kMost; ++i)
    parts_[i].iov_base = &bytes_[i * kMaxBytes];
}

Datagrams::Done Datagrams::receive(int socket) {
  for (size_t i = 0; i < kMost; ++i) {
    parts_[i].iov_len = kMaxBytes;
    received_[i] = {};
    received_[i].msg_hdr = {.msg_name = names_[i].buffer(),
                            .msg_namelen = SocketAddress::capacity(),
                            .msg_iov = &parts_[i],
                            .msg_iovlen = 1,
                            .msg_control = controls_[i].bytes.data(),
                            .msg_controllen = controls_[i].bytes.size()};
  }
  const int count = ::recvmmsg(socket, received_.data(), kMost, MSG_DONTWAIT, nullptr);
  if (count < 0) return {0, errno};
  for (size_t i = 0; i < static_cast<size_t>(count); ++i)
    parts_[i].iov_len = received_[i].msg_len;
  return {static_cast<size_t>(count), 0};
}

net::IpAddr Datagrams::local(size_t index) const {
  msghdr header = received_[index].msg_hdr;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_PKTINFO)
      return ip_of(read_control<in_pktinfo>(part));
    if (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_PKTINFO)
      return ip_of(read_control<in6_pktinfo>(part));
  }
  return {};
}

Datagrams::Done Datagrams::send(int socket, size_t first, size_t last) {
  return send_with(socket, first, last, {});
}

Datagrams::Done Datagrams::send(int socket, size_t first, size_t last, SocketAddress peer,
                                const net::IpAddr& local) {
  Control control;
  const size_t size = write_local_address(control, local);
  return send_with(socket, first, last,
                   {.msg_name = peer.buffer(),
                    .msg_namelen = peer.size(),
                    .msg_control = size == 0 ? nullptr : control.bytes.data(),
                    .msg_controllen = size});
}

// No interface is named: the route to the peer decides, as for any answer.
size_t Datagrams::write_local_address(Control& control, const net::IpAddr& local) {
  if (local.is_unspecified()) return 0;
  if (local.family() == net::Family::V4) {
    in_pktinfo info{};
    std::memcpy(&info.ipi_spec_dst, local.data(), sizeof info.ipi_spec_dst);
    return write_control(control.bytes.data(), IPPROTO_IP, IP_PKTINFO, info);
  }
  in6_pktinfo info{};
  std::memcpy(&info.ipi6_addr, local.data(), sizeof info.ipi6_addr);
  return write_control(control.bytes.data(), IPPROTO_IPV6, IPV6_PKTINFO, info);
}

Datagrams::Done Datagrams::send_with(int socket, size_t first, size_t last, const msghdr& common) {
  for (size_t i = first; i < last; ++i) {
    sent_[i].msg_hdr = common;
    sent_[i].msg_hdr.msg_iov = &parts_[i];
    sent_[i].msg_hdr.msg_iovlen = 1;
  }
  // An error after the first datagram is told only by the call that begins with the one it means.
  Done done;
  while (first + done.count < last) {
    const size_t next = first + done.count;
    const int sent = ::sendmmsg(socket, &sent_[next], static_cast<unsigned>(last - next),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      done.error = errno;
      break;
    }
    done.count += static_cast<size_t>(sent);
  }
  return done;
}

}  // namespace relay
