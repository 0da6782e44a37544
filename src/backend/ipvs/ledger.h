// What should be in the kernel, Service by Service, and what has to change so that it is. Pure.
//
// Two ways lead to a Difference. update() compares with what the ledger stood for before, and touches only the Services
// it is given: its cost does not depend on how many others there are. compare() compares everything with what was read
// from the kernel.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "backend/ipvs/contents.h"
#include "kernel/ipvs.h"
#include "model/objects.h"

namespace ipvs {

// What the kernel has, of one family.
struct Observed {
  struct Server {
    kernel::VirtualServer server;
    std::vector<kernel::RealServer> reals;  // in no order
  };
  std::vector<Server> servers;  // whoever made them
  std::array<std::optional<std::vector<kernel::SetEntry>>, kSets>
      sets;                        // nothing: there is no such set
  std::vector<net::IpAddr> bound;  // to our device
};

struct RealChange {
  kernel::ServerKey server;
  kernel::RealServer real;

  auto operator<=>(const RealChange&) const = default;
};

// What to write. All lists are sorted by what they are about.
struct Difference {
  std::vector<SetId> sets_missing;  // compare() only
  std::vector<Entry> entries_added;
  std::vector<Entry> entries_removed;
  std::vector<kernel::VirtualServer> servers_added;  // their real servers are in reals_added
  std::vector<kernel::VirtualServer> servers_updated;
  std::vector<kernel::ServerKey> servers_removed;  // their real servers are in no list
  std::vector<RealChange> reals_added;
  std::vector<RealChange> reals_updated;  // another weight
  std::vector<RealChange> reals_removed;  // `real` is what the kernel has
  std::vector<net::IpAddr> bound;
  std::vector<net::IpAddr> unbound;

  bool empty() const;
  size_t size() const;  // how many changes
};

class Ledger {
 public:
  Ledger() = default;
  // Its parts point to each other: it can be moved, not copied.
  Ledger(Ledger&&) = default;
  Ledger& operator=(Ledger&&) = default;

  // What these Services need from now on; those with empty contents go. What they have changed.
  // Of several Services that claim a front end the first by name has it: what the kernel holds depends on what there is,
  // not on what has been.
  Difference update(std::vector<std::pair<model::ServiceKey, ServiceContents>> services);

  // What the kernel lacks or has too much, given what it has. Virtual servers of nobody are left alone if `is_excluded`
  // says so of their address.
  Difference compare(const Observed& observed,
                     const std::function<bool(const net::IpAddr&)>& is_excluded) const;

  // What it all amounts to, in the form in which it is read from the kernel; servers by key, all else sorted.
  Observed everything() const;

  bool has_entries(SetId set) const;
  // Of all Services; sorted, each once.
  std::vector<Guard> guards() const;
  size_t endpoints() const { return endpoints_; }
  size_t servers() const { return owners_.size(); }
  // The Services in the ledger.
  size_t services() const { return services_.size(); }

 private:
  using Services = std::map<model::ServiceKey, ServiceContents>;
  using Service = Services::value_type;
  // A front end as somebody has it.
  struct Holding {
    const kernel::VirtualServer* server = nullptr;  // null: nobody
    const Targets* targets = nullptr;
  };
  struct Hash {
    size_t operator()(const net::IpAddr& ip) const noexcept;
    size_t operator()(const kernel::ServerKey& key) const noexcept;
    size_t operator()(const Entry& entry) const noexcept;
  };
  template <typename T>
  using Counts = boost::unordered_flat_map<T, uint32_t, Hash>;
  class Update;

  Holding holding(const kernel::ServerKey& key) const;
  // All of them, by key.
  std::vector<Holding> holdings() const;
  // By set and sorted, with those of IpvsIps.
  std::array<std::vector<kernel::SetEntry>, kSets> entries() const;
  std::vector<net::IpAddr> bound() const;
  void compare_servers(const Observed& observed,
                       const std::function<bool(const net::IpAddr&)>& is_excluded,
                       Difference& out) const;

  Services services_;
  boost::unordered_flat_map<kernel::ServerKey, const Service*, Hash> owners_;
  // Who claims a front end and does not have it, by name. Hardly any.
  boost::unordered_flat_map<kernel::ServerKey, std::vector<const Service*>, Hash> contenders_;
  // How many Services claim it.
  Counts<Entry> entries_;
  Counts<net::IpAddr> bound_;
  std::map<Guard, uint32_t> guards_;
  std::array<size_t, kSets> set_sizes_{};
  size_t endpoints_ = 0;
};

}  // namespace ipvs
