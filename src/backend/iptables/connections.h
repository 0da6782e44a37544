// How many connections each Service port has had, from the packet counters of rules. Pure.
//
// The nat table sees the first packet of each connection, so a packet that a rule sends on to an endpoint is a
// connection. Counters begin at zero when a chain is written anew; what came between the last look and that is
// not seen.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/lines.h"
#include "codec/chain_hash.h"

namespace iptables {

// By the hash in the names of the port's chains: how many since its chains were written.
using ChainConnections = std::map<codec::ChainHash, uint64_t>;

// Reads what `iptables-save -c -t nat` prints.
class ConnectionReader {
 public:
  void feed(std::string_view bytes) {
    lines_.feed(bytes, [this](std::string_view text) { line(text); });
  }
  ChainConnections finish();

 private:
  void line(std::string_view text);

  base::LineReader lines_;
  ChainConnections chains_;
};

class ConnectionTotals {
 public:
  // The totals of all ports of the snapshot in that family; ports that are gone are forgotten.
  std::vector<backend::PortConnections> add(const ChainConnections& seen,
                                            const model::Snapshot& snapshot, net::Family family);

 private:
  struct Port {
    uint64_t last = 0;
    uint64_t total = 0;
  };
  std::map<codec::ChainHash, Port> ports_;
};

}  // namespace iptables
