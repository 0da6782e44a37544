#include "backend/nftables/proxier.h"

#include <algorithm>
#include <utility>

#include "backend/nftables/difference.h"
#include "backend/nftables/encode.h"
#include "backend/stopwatch.h"
#include "kernel/addresses.h"
#include "kernel/nf_tables_read.h"
#include "kernel/nf_tables_watch.h"

namespace nftables {
namespace {

namespace nft = kernel::nf_tables;
using backend::SyncReport;
using backend::SyncRequest;
using backend::timed;
using base::ErrorCode;
using base::Result;
using namespace std::chrono_literals;

// How long a chain that nothing leads to is kept: the Service that left may be back soon.
constexpr auto kIdleChainLife = 30s;
constexpr int kRewriteAttempts = 3;
// What is larger is written while nobody listens, see nft::Listeners.
constexpr size_t kLargeBatch = size_t{64} * 1024;

class OwnWatch : public backend::Watch {
 public:
  explicit OwnWatch(std::unique_ptr<nft::TableWatch> watch) : watch_(std::move(watch)) {}

  int fd() const override { return watch_->fd(); }
  backend::Disturbance drain() override {
    switch (watch_->drain()) {
      case nft::News::Nothing:
        return backend::Disturbance::None;
      case nft::News::Missed:
        return backend::Disturbance::Maybe;
      case nft::News::Changed:
        return backend::Disturbance::Sure;
    }
    __builtin_unreachable();
  }

 private:
  std::unique_ptr<nft::TableWatch> watch_;
};

}  // namespace

plan::Context plan_context(const Settings& settings, const model::Snapshot& snapshot) {
  plan::Context context;
  context.family = settings.options.family;
  context.node_name = settings.node_name;
  context.node_ip = settings.node_ip;
  context.external_ips = settings.external_ips;
  if (snapshot.node != nullptr) context.zone = snapshot.node->zone;
  return context;
}

Result<std::vector<net::IpAddr>> node_port_ips(const Settings& settings) {
  std::vector<net::IpAddr> ips;
  if (settings.options.node_ports_everywhere) return ips;
  for (const auto& address : TRY(kernel::interface_addresses())) {
    const auto holds = [&](const net::Cidr& cidr) { return cidr.contains(address.ip); };
    if (std::ranges::none_of(settings.node_port_cidrs, holds)) continue;
    // Not even the translation of addresses can make ::1 reachable by another interface.
    if (address.ip.is_loopback() && !settings.options.localhost_node_ports) continue;
    ips.push_back(address.ip);
  }
  std::ranges::sort(ips);
  const auto repeated = std::ranges::unique(ips);
  ips.erase(repeated.begin(), repeated.end());
  return ips;
}

Basis basis_of(const Settings& settings, const model::SnapshotPtr& snapshot,
               std::vector<std::string>& warnings) {
  auto ips = node_port_ips(settings);
  if (!ips) {
    // Parity: without the list no node port is reachable, and the rest works.
    warnings.push_back("no node-port addresses, ignoring: " + ips.error().text);
    ips.emplace();
  }
  return {.snapshot = snapshot,
          .context = plan_context(settings, *snapshot),
          .node_ports = *ips,
          .node = render_node(settings.options, *ips, snapshot->service_cidrs)};
}

Result<std::unique_ptr<Proxier>> Proxier::open(Settings settings,
                                               std::shared_ptr<nft::Listeners> listeners) {
  auto conversation = TRY(kernel::netlink::Conversation::open(NETLINK_NETFILTER));
  return std::unique_ptr<Proxier>(
      new Proxier(std::move(settings), std::move(listeners), std::move(conversation)));
}

Proxier::Proxier(Settings settings, std::shared_ptr<nft::Listeners> listeners,
                 kernel::netlink::Conversation conversation)
    : settings_(std::move(settings)),
      listeners_(std::move(listeners)),
      conversation_(std::move(conversation)) {}

Result<std::unique_ptr<backend::Watch>> Proxier::watch() {
  const uint32_t own = mnl_socket_get_portid(conversation_.socket());
  return std::make_unique<OwnWatch>(TRY(nft::TableWatch::open(family(), kTable, own, listeners_)));
}

Result<SyncReport> Proxier::sync(const SyncRequest& request) {
  const bool some = !request.full && !request.rewrite && contents_.has_value();
  auto report = some ? sync_some(request) : sync_all(request);
  if (!report) contents_.reset();
  return report;
}

Result<SyncReport> Proxier::sync_all(const SyncRequest& request) {
  SyncReport report;
  report.full = true;
  const auto believed = std::exchange(contents_, std::nullopt);
  auto wanted = timed(report.plan, [&] {
    return plan_contents(basis_of(settings_, request.snapshot, report.warnings), settings_.options);
  });
  report.endpoints = wanted.account.endpoints();
  const auto skeleton =
      TRY(timed(report.observe, [&] { return read_skeleton(conversation_, family()); }));
  const bool there = !request.rewrite && TRY(timed(report.observe, [&] {
    return holds(conversation_, skeleton, wanted, settings_.options, Look::Closely);
  }));
  if (there) {
    remember_chains(skeleton, wanted.account);
    capacity_ = capacity_of(skeleton);
  } else {
    if (believed &&
        !TRY(holds(conversation_, skeleton, *believed, settings_.options, Look::Briefly)))
      report.drift = 1;
    TRY(rewrite(wanted, report));
  }
  contents_ = std::move(wanted);
  note_idle_chains();
  // What was left by whoever wrote before us; without session affinity nobody looks there.
  if (has_sticky_fronts())
    sweep_affinity(judge_of_all(*contents_, settings_.options, !there), report);
  return report;
}

// Chains that somebody left and nothing needs are deleted some time, whatever is in them.
void Proxier::remember_chains(const Skeleton& skeleton, const Account& account) {
  chains_.clear();
  idle_.clear();
  for (const auto& [target, uses] : account.targets())
    chains_.insert(chain_name(target));
  for (const auto& [chain, hook] : skeleton.chains) {
    if (parse_target(chain) && !chains_.contains(chain)) idle_.emplace(chain, Clock::now());
  }
  for (const auto& chain : static_chains(settings_.options))
    idle_.erase(chain.name);
}

Result<> Proxier::rewrite(const Contents& wanted, SyncReport& report) {
  const Capacity capacity = capacity_for(wanted.account);
  for (int attempt = 1;; ++attempt) {
    const auto skeleton =
        TRY(timed(report.observe, [&] { return read_skeleton(conversation_, family()); }));
    if (is_ours(skeleton, settings_.options)) {
      chains_.clear();
      for (const auto& [chain, tags] : skeleton.rules)
        chains_.insert(chain);
      TRY(make_chains(wanted.account, report));
    }
    Batch batch(family(), kTable);
    report.chains = report.rules = 0;
    timed(report.render, [&] {
      clear_table(batch, skeleton, capacity);
      for (const auto& chain : all_chains(wanted.account, settings_.options))
        batch.add_chain(encode(chain));
      for (const auto& chain : all_chains(wanted.account, settings_.options))
        add_rules(batch, chain, report);
      add_all_elements(batch, wanted);
    });
    report.bytes = batch.size_bytes();
    const auto done = timed(report.commit, [&] { return commit_silently(batch, wanted); });
    if (done) break;
    // It may have changed since we looked.
    if (attempt == kRewriteAttempts) return std::unexpected(done.error());
  }
  report.elements = wanted.account.total();
  capacity_ = capacity;
  const auto skeleton = TRY(read_skeleton(conversation_, family()));
  remember_chains(skeleton, wanted.account);
  return {};
}

Result<> Proxier::commit_silently(Batch& batch, const Contents& wanted) {
  const uint32_t before = TRY(nft::generation(conversation_));
  {
    const nft::Listeners::Silence silence(*listeners_);
    TRY(batch.commit(conversation_, "write the table"));
  }
  if (TRY(nft::generation(conversation_)) == before + 1) return {};
  // Somebody was there at the same time, unheard: the other family, most likely.
  const auto skeleton = TRY(read_skeleton(conversation_, family()));
  if (TRY(holds(conversation_, skeleton, wanted, settings_.options, Look::Briefly))) return {};
  return base::fail(ErrorCode::Busy, "write the table: somebody changed it meanwhile");
}

void Proxier::clear_table(Batch& batch, const Skeleton& skeleton, const Capacity& capacity) const {
  const bool ours = is_ours(skeleton, settings_.options);
  if (skeleton.table && !ours) batch.delete_table();
  batch.add_table(kTableComment);
  if (ours) batch.flush_all_chains();
  for (const SetId set : sets_of(settings_.options)) {
    const std::string set_name(name(set));
    const auto wanted = encode(set, family(), capacity);
    // Who sticks to which endpoint is known only there.
    if (ours && set == SetId::Affinity) continue;
    if (ours && skeleton.sets.at(set_name).size == wanted.size) {
      batch.flush_set(set_name);
      continue;
    }
    if (ours) batch.delete_set(set_name);
    batch.add_set(wanted);
  }
}

void Proxier::add_rules(Batch& batch, const Chain& chain, SyncReport& report) const {
  for (const auto& rule : chain.rules)
    batch.add_rule(chain.name, encode(rule, family()));
  report.chains += 1;
  report.rules += chain.rules.size();
}

void Proxier::add_all_elements(Batch& batch, const Contents& wanted) const {
  for (const auto& element : wanted.basis.node)
    add_element(batch, element);
  wanted.ledger.for_each_shared([&](const Element& element) { add_element(batch, element); });
  for_each_front(wanted, [&](const Front& /*front*/, std::span<const Element> elements) {
    for (const auto& element : elements)
      add_element(batch, element);
  });
  add_element(batch, wanted.account.fingerprint().element());
}

Result<SyncReport> Proxier::sync_some(const SyncRequest& request) {
  SyncReport report;
  delete_idle_chains(report);
  const Fingerprint before = contents_->account.fingerprint();
  Difference difference(family());
  timed(report.plan, [&] {
    compare(*contents_, request.snapshot, request.dirty, settings_.options, difference);
  });
  report.endpoints = contents_->account.endpoints();
  const auto fits = [&](SetId map, uint32_t room) { return contents_->account.count(map) <= room; };
  if (!fits(SetId::Endpoints, capacity_.endpoints) ||
      !fits(SetId::NodePortEndpoints, capacity_.node_port_endpoints)) {
    contents_.reset();
    return sync_all(request);
  }
  const bool owed = affinity_owed_;
  affinity_owed_ = owed || !difference.judge.idle();
  TRY(write(difference, before, report));
  note_idle_chains();
  if (owed) {
    sweep_affinity(judge_of_all(*contents_, settings_.options, false), report);
  } else if (affinity_owed_) {
    sweep_affinity(difference.judge, report);
  }
  return report;
}

Result<> Proxier::write(const Difference& difference, const Fingerprint& before,
                        SyncReport& report) {
  if (before == contents_->account.fingerprint()) return {};
  TRY(make_chains(contents_->account, report));
  Batch batch(family(), kTable);
  timed(report.render, [&] {
    delete_element(batch, before.element());
    difference.changes.for_each([&](const Changes::Change& change) {
      if (change.before) delete_element(batch, *change.before);
      ++report.elements;
    });
    difference.changes.for_each([&](const Changes::Change& change) {
      if (change.now) add_element(batch, *change.now);
    });
    add_element(batch, contents_->account.fingerprint().element());
  });
  report.bytes = batch.size_bytes();
  return timed(report.commit, [&] {
    return batch.size_bytes() > kLargeBatch ? commit_silently(batch, *contents_)
                                            : batch.commit(conversation_, "change the table");
  });
}

// In a transaction before that of the elements that lead there. A packet that is on its way sees elements as they are now,
// but rules as they were when it came: in one transaction it could be led to a chain that is empty for it.
Result<> Proxier::make_chains(const Account& account, SyncReport& report) {
  Batch batch(family(), kTable);
  std::vector<Chain> missing;
  for (const auto& [target, uses] : account.targets()) {
    if (!chains_.contains(chain_name(target)))
      missing.push_back(chain_of(target, settings_.options));
  }
  if (missing.empty()) return {};
  for (const auto& chain : missing) {
    batch.add_chain(encode(chain));
    batch.flush_chain(chain.name);
  }
  for (const auto& chain : missing)
    add_rules(batch, chain, report);
  TRY(timed(report.commit, [&] { return batch.commit(conversation_, "make chains"); }));
  for (const auto& chain : missing)
    chains_.insert(chain.name);
  return {};
}

void Proxier::note_idle_chains() {
  std::set<std::string> used;
  for (const auto& [target, uses] : contents_->account.targets())
    used.insert(chain_name(target));
  for (const auto& chain : chains_) {
    if (!used.contains(chain)) idle_.try_emplace(chain, Clock::now());
  }
  for (const auto& chain : used)
    idle_.erase(chain);
}

void Proxier::delete_idle_chains(SyncReport& report) {
  Batch batch(family(), kTable);
  std::vector<std::string> doomed;
  for (const auto& [chain, since] : idle_) {
    if (Clock::now() - since > kIdleChainLife) doomed.push_back(chain);
  }
  if (doomed.empty()) return;
  for (const auto& chain : doomed)
    batch.flush_chain(chain);
  for (const auto& chain : doomed) {
    batch.delete_chain(chain);
    idle_[chain] = Clock::now();  // if it fails, the next attempt is as far away
  }
  const auto done = batch.commit(conversation_, "delete chains that nothing leads to");
  if (!done) {
    ++report.cleanup_failures;
    report.warnings.push_back(done.error().text + ", ignoring");
    return;
  }
  for (const auto& chain : doomed) {
    chains_.erase(chain);
    idle_.erase(chain);
  }
  report.chains += doomed.size();
}

void Proxier::sweep_affinity(const AffinityJudge& judge, SyncReport& report) {
  affinity_owed_ = true;
  const auto done = timed(report.commit, [&] { return try_sweep(judge); });
  if (done) {
    affinity_owed_ = false;
  } else {
    report.warnings.push_back(done.error().text + ", trying again later");
  }
}

Result<> Proxier::try_sweep(const AffinityJudge& judge) {
  const std::string map(name(SetId::Affinity));
  nft::Reader reader(conversation_, family(), kTable);
  for (const auto& found : TRY(reader.elements(map))) {
    const auto ruling = judge.judge(
        {.key = found.key, .endpoint = found.value, .timeout = found.timeout, .left = found.left});
    if (ruling.keep && !ruling.timeout) continue;
    // Each on its own: one that has just timed out must not keep the others.
    Batch batch(family(), kTable);
    batch.delete_element(map, {.key = found.key});
    if (ruling.keep) {
      batch.add_element(map, {.key = found.key,
                              .value = found.value,
                              .timeout = *ruling.timeout,
                              .left = ruling.left});
    }
    const auto done = batch.commit(conversation_, "forget session affinity");
    if (!done && done.error().code != ErrorCode::NotFound) return std::unexpected(done.error());
  }
  return {};
}

bool Proxier::has_sticky_fronts() const {
  return contents_->account.count(SetId::StickyServices) +
             contents_->account.count(SetId::StickyNodePorts) >
         0;
}

bool Proxier::flushed(bool /*thorough*/) {
  if (!contents_) return false;
  if (affinity_owed_ && has_sticky_fronts())
    affinity_owed_ = !try_sweep(judge_of_all(*contents_, settings_.options, false));
  const auto skeleton = read_skeleton(conversation_, family());
  if (!skeleton) return false;
  const auto there = holds(conversation_, *skeleton, *contents_, settings_.options, Look::Briefly);
  if (there && !*there) return true;
  const auto ips = node_port_ips(settings_);
  return ips && *ips != contents_->basis.node_ports;
}

Result<std::vector<backend::PortConnections>> Proxier::count_connections(
    const model::Snapshot& /*snapshot*/) {
  return base::fail(ErrorCode::Unsupported, "mode nftables does not count connections");
}

}  // namespace nftables
