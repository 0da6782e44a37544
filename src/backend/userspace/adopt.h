// Which proxy ports the rules lead to that a former process has left in the kernel. Pure.
//
// With the same ports, the rules of a restarted process are those that are there already.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include <boost/unordered/unordered_flat_map.hpp>

#include "backend/iptables/dump.h"
#include "backend/userspace/portals.h"
#include "plan/plan.h"

namespace userspace {

class AdoptedPorts {
 public:
  AdoptedPorts() = default;
  // `dump` is what iptables-save prints of the table nat. It may be anything.
  static AdoptedPorts parse(std::string_view dump);

  // The ports that the rules of this Service port lead to.
  ProxyPorts of(const plan::PortPlan& plan) const;
  // Those of all.
  const std::set<uint16_t>& all() const { return ports_; }

 private:
  uint16_t find(std::string_view match) const;

  // By the text of a rule up to its target: "-A CHAIN ... --dport 80".
  boost::unordered_flat_map<std::string, uint16_t, iptables::TextHash, std::equal_to<>> by_match_;
  std::set<uint16_t> ports_;
};

}  // namespace userspace
