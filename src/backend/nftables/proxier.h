// Mode nftables for one IP family: keeps the kernel in line with snapshots, over netlink.
//
// Every transaction takes the old fingerprint out of the table and puts the new one in. So it fails as a whole if the
// table is not what we take it for, and a later process can tell by the fingerprint alone that nothing has to be written.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/nftables/contents.h"
#include "backend/nftables/difference.h"
#include "backend/nftables/elements.h"
#include "backend/nftables/layout.h"
#include "backend/nftables/skeleton.h"
#include "base/result.h"
#include "kernel/netlink.h"
#include "kernel/nf_tables.h"
#include "kernel/nf_tables_watch.h"

namespace nftables {

// What the configuration and the node say; fixed while the process runs.
struct Settings {
  Options options;
  std::string node_name;
  net::IpAddr node_ip;                     // loopback when undetermined
  bool external_ips = true;                // feature gate AllowServiceExternalIPs
  std::vector<net::Cidr> node_port_cidrs;  // of this family, if node ports are not open everywhere
};

plan::Context plan_context(const Settings& settings, const model::Snapshot& snapshot);
// The addresses of this node on which node ports are open; none is read if that is everywhere.
base::Result<std::vector<net::IpAddr>> node_port_ips(const Settings& settings);

// With the addresses as they are now; `warnings` gets what is missing and does not keep the rest from working.
Basis basis_of(const Settings& settings, const model::SnapshotPtr& snapshot,
               std::vector<std::string>& warnings);

class Proxier : public backend::Backend {
 public:
  // Proxiers of one process share their listeners.
  static base::Result<std::unique_ptr<Proxier>> open(
      Settings settings, std::shared_ptr<kernel::nf_tables::Listeners> listeners);

  net::Family family() const override { return settings_.options.family; }
  base::Result<backend::SyncReport> sync(const backend::SyncRequest& request) override;
  bool flushed(bool thorough) override;
  base::Result<std::vector<backend::PortConnections>> count_connections(
      const model::Snapshot& snapshot) override;
  base::Result<std::unique_ptr<backend::Watch>> watch() override;

 private:
  using Clock = std::chrono::steady_clock;
  using Batch = kernel::nf_tables::Batch;

  Proxier(Settings settings, std::shared_ptr<kernel::nf_tables::Listeners> listeners,
          kernel::netlink::Conversation conversation);

  base::Result<backend::SyncReport> sync_all(const backend::SyncRequest& request);
  base::Result<backend::SyncReport> sync_some(const backend::SyncRequest& request);

  void remember_chains(const Skeleton& skeleton, const Account& account);

  // Everything anew, in one transaction.
  base::Result<> rewrite(const Contents& wanted, backend::SyncReport& report);
  // Empties the table, or makes it anew if it is not one of ours.
  void clear_table(Batch& batch, const Skeleton& skeleton, const Capacity& capacity) const;
  // While nobody of us listens. Busy: somebody else has changed the table at the same time, unheard.
  base::Result<> commit_silently(Batch& batch, const Contents& wanted);
  void add_all_elements(Batch& batch, const Contents& wanted) const;
  void add_rules(Batch& batch, const Chain& chain, backend::SyncReport& report) const;

  base::Result<> write(const Difference& difference, const Fingerprint& before,
                       backend::SyncReport& report);

  base::Result<> make_chains(const Account& account, backend::SyncReport& report);

  // Chains on demand are deleted a while after nothing leads to them any more: at once, older kernels say EBUSY.
  void note_idle_chains();
  void delete_idle_chains(backend::SyncReport& report);

  bool has_sticky_fronts() const;
  void sweep_affinity(const AffinityJudge& judge, backend::SyncReport& report);
  base::Result<> try_sweep(const AffinityJudge& judge);

  Settings settings_;
  std::shared_ptr<kernel::nf_tables::Listeners> listeners_;
  kernel::netlink::Conversation conversation_;
  std::optional<Contents> contents_;  // nothing: not known
  Capacity capacity_;                 // of the maps in the kernel
  bool affinity_owed_ = false;        // entries that lead nowhere may be there
  std::set<std::string> chains_;      // on demand, in the kernel with their rules
  std::map<std::string, Clock::time_point>
      idle_;  // in the kernel, and nothing leads there: since when
};

}  // namespace nftables
