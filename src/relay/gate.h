// Who may reach a socket at all. The kernel holds to it: packets of anybody else are dropped without an answer, and
// without waking us. Pure, but for apply().
#pragma once

#include <linux/filter.h>

#include <vector>

#include "base/result.h"
#include "net/ip.h"

namespace relay {

// Some of those who may come.
struct Sources {
  std::vector<net::Cidr> networks;  // those of another family let nobody in
  bool this_node = false;           // whatever comes over the loopback device

  bool operator==(const Sources&) const = default;
};

// Every one of `rules` must let a packet through; without rules everybody may come.
struct Gate {
  std::vector<Sources> rules;

  bool operator==(const Gate&) const = default;
};

// A classic BPF program for SO_ATTACH_FILTER; empty: everybody. Too many sources (the kernel takes 4096 instructions) give
// Invalid.
base::Result<std::vector<sock_filter>> compile(const Gate& gate, net::Family family);

// In place of the gate that the socket has. One step: there is no moment without.
base::Result<> apply(const Gate& gate, net::Family family, int socket);

}  // namespace relay
