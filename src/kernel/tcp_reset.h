// Resets TCP connections that pass through this machine, at both of their ends.
//
// A reset counts only with the right sequence number, and connection tracking does not keep those. So the ends are
// made to tell: the connection's entry is deleted, each end is sent a stray acknowledgement in the name of the other,
// TCP answers that with its own numbers (RFC 9293, 3.10.7.4), and a rule in an nf_tables table of our own
// answers the answer with the reset. Whoever happens to send by itself gets its reset the same way.
//
// The rule takes only segments of connections that are not tracked, so a new connection with the same addresses and
// ports is not harmed. The table is there from the first reset until clear_tcp_resets(); its elements vanish by themselves.
//
// Blocks; used on a sync thread. One object for each family.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "net/flow.h"

namespace kernel {

// The name of the table, in each of the families ip and ip6.
inline constexpr const char* kTcpResetTable = "kube-proxy-resets";

// Removes the table, if it is there.
base::Result<> clear_tcp_resets(net::Family family);

class TcpResetter {
 public:
  // How long after its reset an end of a connection that was not reached can still be answered.
  static constexpr std::chrono::seconds kLinger{120};

  // Makes sure that the kernel can do all of it and that we may, and removes what an earlier process left. The error
  // says what is missing.
  static base::Result<TcpResetter> open(net::Family family);

  // Resets tracked connections that are `doomed`, `limit` of them at most, and returns them. Some may be left: ask
  // again until there are none.
  base::Result<std::vector<net::Flow>> reset(const std::function<bool(const net::Flow&)>& doomed,
                                             size_t limit);

 private:
  TcpResetter(net::Family family, base::Fd raw) : family_(family), raw_(std::move(raw)) {}

  base::Result<> arm(const std::vector<net::Flow>& flows) const;
  void poke(const net::Tuple& segment) const;

  net::Family family_;
  base::Fd raw_;
};

}  // namespace kernel
