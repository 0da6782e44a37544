// Mode ipvs for one IP family: keeps virtual servers, sets, rules and the addresses of our device in line with snapshots.
//
// There is no transaction over all of that, so the order of writes sees to it that no packet meets half of a Service:
// sets and rules before the servers that need them, servers before the address that leads to them, and the other way
// round when something goes.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/iptables/commit.h"
#include "backend/ipvs/drain.h"
#include "backend/ipvs/ledger.h"
#include "backend/ipvs/rules.h"
#include "base/result.h"
#include "kernel/ipset.h"
#include "kernel/ipvs.h"
#include "kernel/link.h"
#include "plan/plan.h"

namespace ipvs {

// What the configuration and the node say; fixed while the process runs.
struct Settings {
  Options options;
  plan::Context context;                   // but for the zone, which the snapshot knows
  std::vector<net::Cidr> node_port_cidrs;  // of this family; empty: node ports are open everywhere
  std::vector<net::Cidr> exclude_cidrs;    // virtual servers in there are not ours to remove

  bool is_excluded(const net::IpAddr& ip) const;
};

// Can the kernel serve this mode? Says what is missing: IPVS itself, the scheduler, kinds of sets. Loads modules.
base::Result<> check_kernel(const std::string& scheduler, const std::vector<net::Family>& families);

// What all Services need.
Ledger ledger_of(const Settings& settings, const model::Snapshot& snapshot,
                 const NodeAddresses& node);
// Which sets have members.
Filled filled_sets(const Ledger& ledger);

// The addresses that we are about to take off our device: no news to us. Shared with the loop thread.
class Expected {
 public:
  void add(const std::vector<net::IpAddr>& ips);
  bool take(const net::IpAddr& ip);
  void clear();

 private:
  std::mutex mutex_;
  std::multiset<net::IpAddr> ips_;
};

class ServerBatch;

class Proxier : public backend::Backend {
 public:
  static base::Result<std::unique_ptr<Proxier>> open(Settings settings);

  net::Family family() const override { return settings_.options.family; }
  base::Result<backend::SyncReport> sync(const backend::SyncRequest& request) override;
  bool flushed(bool thorough) override;
  base::Result<std::vector<backend::PortConnections>> count_connections(
      const model::Snapshot& snapshot) override;
  base::Result<std::unique_ptr<backend::Watch>> watch() override;
  Time tend(Time now) override;

  // What the kernel has; our device may be missing.
  base::Result<Observed> observe();

 private:
  using Complaints = std::vector<std::string>;

  struct Parts {
    kernel::Ipvs ipvs;
    kernel::Ipset ipset;
    kernel::DeviceAddresses addresses;
  };
  Proxier(Settings settings, Parts parts);

  // What to write, for a full sync and for one of some Services.
  base::Result<Difference> full_difference(const backend::SyncRequest& request, bool known,
                                           backend::SyncReport& report);
  Difference partial_difference(const backend::SyncRequest& request, backend::SyncReport& report);
  std::vector<std::pair<model::ServiceKey, ServiceContents>> contents_of_all(
      const std::vector<plan::ServicePlan>& plans, backend::SyncReport& report);
  const std::string& scheduler_for(const plan::ServicePlan& plan, backend::SyncReport& report);
  bool has_scheduler(const std::string& name);
  // Messages to the kernel so far.
  uint64_t sent() const { return ipvs_.sent() + ipset_.sent() + addresses_.sent(); }

  // Makes our device, notes the addresses of the node, and reads what there is.
  base::Result<Observed> look_around();
  base::Result<Observed> observe(unsigned device, const std::vector<kernel::DeviceAddress>& all);
  base::Result<iptables::Observed> observe_rules() const;
  // How much of what the ledger stands for is not in the kernel, or too much there.
  size_t count_drift(const Observed& observed) const;
  bool has_drifted(const Observed& observed, const std::vector<kernel::DeviceAddress>& addresses);

  base::Result<> write(const Difference& difference, backend::SyncReport& report);
  base::Result<> make_sets(const Difference& difference);
  base::Result<> write_rules(backend::SyncReport& report);
  base::Result<> change_entries(const std::vector<Entry>& added, const std::vector<Entry>& removed,
                                backend::SyncReport& report);
  base::Result<> put_servers(const Difference& difference, backend::SyncReport& report);
  base::Result<> drop_servers(const Difference& difference, backend::SyncReport& report);
  // Takes real servers out of service: at once those that have no connections, the others when these have ended.
  base::Result<> retire(const std::vector<RealChange>& reals, backend::SyncReport& report);
  // Deletes real servers of these virtual ones that have ended their last connection. Returns how many.
  base::Result<size_t> settle(const std::vector<kernel::ServerKey>& servers,
                              Complaints& complaints);
  base::Result<> change_addresses(const std::vector<net::IpAddr>& bound,
                                  const std::vector<net::IpAddr>& unbound,
                                  backend::SyncReport& report);
  enum class Deed : uint8_t { Write, Update, Remove };
  base::Result<> apply(ServerBatch batch, Deed deed, Complaints& complaints);
  // A single change that failed: told, and everything is compared at the next occasion.
  void complain(Complaints& complaints, std::string text);

  Settings settings_;
  kernel::Ipvs ipvs_;
  kernel::Ipset ipset_;
  kernel::DeviceAddresses addresses_;
  iptables::Programs programs_;
  unsigned device_ = 0;
  NodeAddresses node_;
  bool known_ = false;    // the ledger stands for what the kernel has
  bool trouble_ = false;  // it does not: something could not be written
  Ledger ledger_;
  std::vector<iptables::FixedChain> rules_;  // in the kernel, if known_
  Filled filled_;                            // ... and what they are made from
  std::vector<Guard> guards_;
  bool rules_missing_ = true;  // they have to be compared with the kernel
  Drain drain_;
  std::map<std::string, bool> schedulers_;  // those that Services ask for: has the kernel got them?
  std::shared_ptr<Expected> expected_;      // null: nobody listens
};

}  // namespace ipvs
