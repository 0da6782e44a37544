#include "kernel/nf_tables_watch.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "kernel/attributes.h"
#include "kernel/nf_tables.h"

namespace kernel::nf_tables {
namespace {

using base::Result;

constexpr size_t kNewsBytes = size_t{64} * 1024;
// What a neighbour does at once, say in a table of its own with 100,000 elements, should fit.
constexpr int kQueueBytes = 4 * 1024 * 1024;

// Has the kernel drop what `own` has caused: each of our own transactions would wake us, once for every message of it.
Result<> ignore(int fd, uint32_t own) {
  // The filter's loads are in network order, the field is in the machine's.
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(nlmsghdr, nlmsg_pid)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(own), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
  }};
  const sock_fprog filter{program.size(), program.data()};
  if (::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0)
    return base::fail_errno("filter messages of nf_tables");
  return {};
}

bool set_membership(int fd, int what) {
  const int group = NFNLGRP_NFTABLES;
  return ::setsockopt(fd, SOL_NETLINK, what, &group, sizeof group) == 0;
}

}  // namespace

News judge(const nlmsghdr& message, net::Family family, const std::string& table) {
  if (message.nlmsg_type >> 8 != NFNL_SUBSYS_NFTABLES) return News::Nothing;
  if (mnl_nlmsg_get_payload_len(&message) < sizeof(nfgenmsg)) return News::Nothing;
  // A generation is told of at the end of every transaction, whatever it was about.
  if ((message.nlmsg_type & 0xff) == NFT_MSG_NEWGEN) return News::Nothing;
  const auto* generic = static_cast<const nfgenmsg*>(mnl_nlmsg_get_payload(&message));
  if (generic->nfgen_family != protocol_family(family)) return News::Nothing;
  // The first attribute of tables, chains, rules, sets and elements alike is the name of the table.
  static_assert(NFTA_TABLE_NAME == 1 && NFTA_CHAIN_TABLE == 1 && NFTA_RULE_TABLE == 1 &&
                NFTA_SET_TABLE == 1 && NFTA_SET_ELEM_LIST_TABLE == 1 && NFTA_OBJ_TABLE == 1);
  for (const nlattr& attribute : netlink::Attributes::of(message, sizeof(nfgenmsg))) {
    if (mnl_attr_get_type(&attribute) != NFTA_TABLE_NAME) continue;
    const auto* name = static_cast<const char*>(mnl_attr_get_payload(&attribute));
    const std::string_view found(name, strnlen(name, mnl_attr_get_payload_len(&attribute)));
    return found == table ? News::Changed : News::Nothing;
  }
  return News::Nothing;
}

Result<> Listeners::add(int fd) {
  const std::lock_guard lock(mutex_);
  if (silences_ == 0 && !set_membership(fd, NETLINK_ADD_MEMBERSHIP))
    return base::fail_errno("listen to nf_tables");
  sockets_.push_back(fd);
  return {};
}

void Listeners::remove(int fd) {
  const std::lock_guard lock(mutex_);
  std::erase(sockets_, fd);
}

void Listeners::hush() {
  const std::lock_guard lock(mutex_);
  if (silences_++ > 0) return;
  for (const int fd : sockets_)
    set_membership(fd, NETLINK_DROP_MEMBERSHIP);
}

void Listeners::listen_again() {
  const std::lock_guard lock(mutex_);
  if (--silences_ > 0) return;
  for (const int fd : sockets_)
    set_membership(fd, NETLINK_ADD_MEMBERSHIP);
}

Result<std::unique_ptr<TableWatch>> TableWatch::open(net::Family family, std::string table,
                                                     uint32_t own,
                                                     std::shared_ptr<Listeners> listeners) {
  Socket socket(mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC | SOCK_NONBLOCK),
                &mnl_socket_close);
  if (socket == nullptr) return base::fail_errno("open netlink socket");
  const int fd = mnl_socket_get_fd(socket.get());
  TRY(ignore(fd, own));
  // Not getting it means to be told of an overrun sooner.
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &kQueueBytes, sizeof kQueueBytes);
  if (mnl_socket_bind(socket.get(), 0, MNL_SOCKET_AUTOPID) < 0)
    return base::fail_errno("bind netlink socket");
  TRY(listeners->add(fd));
  return std::unique_ptr<TableWatch>(
      new TableWatch(std::move(socket), family, std::move(table), std::move(listeners)));
}

News TableWatch::drain() {
  alignas(nlmsghdr) static thread_local std::array<char, kNewsBytes> buffer;
  News all = News::Nothing;
  while (true) {
    const ssize_t size = ::recv(fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == ENOBUFS) {
      all = std::max(all, News::Missed);
      continue;
    }
    if (size < 0) return all;
    int left = static_cast<int>(size);
    for (auto* message = reinterpret_cast<nlmsghdr*>(buffer.data()); mnl_nlmsg_ok(message, left);
         message = mnl_nlmsg_next(message, &left))
      all = std::max(all, judge(*message, family_, table_));
  }
}

}  // namespace kernel::nf_tables
