#include "backend/userspace/proxier.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "backend/iptables/chains.h"
#include "backend/iptables/commit.h"
#include "backend/iptables/look_pace.h"
#include "backend/stopwatch.h"
#include "backend/userspace/adopt.h"
#include "backend/userspace/complaints.h"
#include "backend/userspace/ledger.h"
#include "backend/userspace/locality.h"
#include "kernel/conntrack.h"

namespace userspace {
namespace {

using backend::SyncReport;
using backend::SyncRequest;
using backend::timed;
using base::Result;
using iptables::FixedChain;
using iptables::Observed;
using iptables::Table;

constexpr std::chrono::minutes kTendPause{1};

// For Complaints.
constexpr const char* kNode = "node";
constexpr const char* kAddresses = "addresses";
constexpr const char* kFlows = "flows";
constexpr const char* kDescriptors = "descriptors";

size_t count_rules(const std::vector<FixedChain>& chains, Table table) {
  size_t count = 0;
  for (const auto& chain : chains)
    if (chain.table == table) count += static_cast<size_t>(std::ranges::count(chain.rules, '\n'));
  return count;
}

}  // namespace

struct Proxier::State {
  State(const Settings& given, std::shared_ptr<relay::Engine> engine)
      : settings(given), programs(given.context.family), ledger(given, std::move(engine)) {}

  net::Family family() const { return settings.context.family; }
  Result<SyncReport> sync(const SyncRequest& request);
  bool flushed(bool thorough);
  Time tend(Time now);

  Result<Observed> observe();
  bool look_for_addresses(SyncReport& report);
  std::vector<plan::ServicePlan> plans_of(const SyncRequest& request, bool all) const;
  Result<> write_rules(const std::optional<Observed>& observed, SyncReport& report);
  void sweep_flows(SyncReport& report);
  void look_for_waiting(SyncReport& report);

  const Settings settings;
  iptables::Programs programs;
  Ledger ledger;
  Complaints complaints;
  std::vector<FixedChain> chains;  // in the kernel, if known
  bool known = false;
  bool adopted =
      false;  // there has been a sync that succeeded: what was there before is no concern
  bool flows_swept = false;  // ... since the last change of UDP portals, if none failed
  iptables::LookPace look_pace;
  Time next_tend = Time::max();
};

// Reading the kernel

Result<Observed> Proxier::State::observe() {
  Observed observed;
  observed[Table::Filter] = TRY(programs.observe(Table::Filter));
  if (adopted) {
    observed[Table::Nat] = TRY(programs.observe(Table::Nat));
    return observed;
  }
  const std::string dump = TRY(programs.save(Table::Nat));
  ledger.adopt(AdoptedPorts::parse(dump));
  iptables::DumpReader reader;
  reader.feed(dump);
  observed[Table::Nat] = reader.finish();
  return observed;
}

// Returns whether they have changed.
bool Proxier::State::look_for_addresses(SyncReport& report) {
  auto found = node_addresses(family());
  if (!found) {
    complaints.raise(kNode, kAddresses,
                     "ports of this node are not claimed, ignoring: " + found.error().text,
                     report.warnings);
    return false;
  }
  complaints.settle(kNode, kAddresses);
  return ledger.set_addresses(std::move(*found));
}

// Syncing

std::vector<plan::ServicePlan> Proxier::State::plans_of(const SyncRequest& request,
                                                        bool all) const {
  const auto& snapshot = *request.snapshot;
  const plan::Context context = settings.context_of(snapshot);
  if (!all) {
    std::set<model::ServiceKey> keys = request.dirty.services;
    keys.insert(ledger.unfinished().begin(), ledger.unfinished().end());
    return plan::compile_some(snapshot.services, keys, context);
  }
  auto plans = plan::compile_all(snapshot.services, context);
  auto gone = ledger.services();
  for (const auto& plan : plans)
    gone.erase(plan.key);
  for (const auto& key : gone)
    plans.push_back({.key = key, .ports = {}});
  return plans;
}

Result<SyncReport> Proxier::State::sync(const SyncRequest& request) {
  SyncReport report;
  report.tables = {{"filter", 0, 0}, {"nat", 0, 0}};
  report.full = request.full || !known || request.dirty.node;
  std::optional<Observed> observed;
  if (report.full) observed = TRY(timed(report.observe, [&] { return observe(); }));
  if (known && observed) {
    const auto drift = iptables::chains_missing(chains, jumps(), *observed);
    report.drift = drift.chains + drift.jumps;
    // Without them, connections went elsewhere.
    flows_swept = flows_swept && report.drift == 0;
  }
  known = false;
  const bool moved = look_for_addresses(report);
  const auto plans = timed(report.plan, [&] { return plans_of(request, report.full || moved); });
  timed(report.render, [&] { ledger.update(plans, report); });
  TRY(write_rules(observed, report));
  ledger.adopt({});
  adopted = true;
  if (ledger.close_retired() && !ledger.unfinished().empty()) {
    // For what was short a moment ago, there may be ports now.
    ledger.update(plans_of({.snapshot = request.snapshot, .dirty = {}}, false), report);
    TRY(write_rules(std::nullopt, report));
    ledger.close_retired();
  }
  known = true;
  sweep_flows(report);
  look_for_waiting(report);
  report.endpoints = ledger.endpoints();
  report.unfinished = !ledger.unfinished().empty();
  next_tend = std::min(next_tend, std::chrono::steady_clock::now() + kTendPause);
  return report;
}

Result<> Proxier::State::write_rules(const std::optional<Observed>& observed, SyncReport& report) {
  const bool changed = ledger.take_rules_changed();
  if (changed || observed) {
    auto wanted = timed(report.render, [&] { return ledger.chains(); });
    auto transaction = timed(report.render, [&] {
      return observed ? iptables::chains_missing(wanted, jumps(), *observed)
                      : iptables::chains_changed(chains, wanted);
    });
    report.chains += transaction.chains;
    report.rules += transaction.rule_count();
    report.bytes += transaction.bytes();
    report.tables[0].written += transaction.rules[static_cast<size_t>(Table::Filter)];
    report.tables[1].written += transaction.rules[static_cast<size_t>(Table::Nat)];
    TRY(timed(report.commit, [&] { return programs.restore(std::move(transaction)); }));
    chains = std::move(wanted);
  }
  report.tables[0].total = count_rules(chains, Table::Filter);
  report.tables[1].total = count_rules(chains, Table::Nat);
  return {};
}

void Proxier::State::sweep_flows(SyncReport& report) {
  if (flows_swept && !ledger.udp_changed()) return;
  const PortalFlows flows = ledger.flows();
  flows_swept = flows.idle();
  if (!flows_swept) {
    const auto swept = kernel::sweep_flows(
        family(), net::Protocol::Udp, [&](const net::Flow& flow) { return flows.stale(flow); });
    const auto failure = swept ? swept->failure : std::optional(swept.error());
    flows_swept = !failure && !swept->interrupted;
    if (failure) {
      complaints.raise(kNode, kFlows, "stale UDP connections, ignoring: " + failure->text,
                       report.warnings);
    }
  }
  if (!flows_swept) return;
  complaints.settle(kNode, kFlows);
  ledger.forget_gone_portals();
}

void Proxier::State::look_for_waiting(SyncReport& report) {
  const size_t fronts = ledger.waiting_fronts();
  if (fronts == 0) return complaints.settle(kNode, kDescriptors);
  complaints.raise(kNode, kDescriptors,
                   "new connections wait for descriptors, the limit of open files is too low",
                   report.warnings);
}

// Between syncs

bool Proxier::State::flushed(bool thorough) {
  if (!known) return false;
  const auto now = std::chrono::steady_clock::now();
  if (!look_pace.is_due(now, thorough)) {
    const auto chain = name(PortalChain::ServicesContainer);
    return programs.chain_presence(Table::Nat, chain) == iptables::Programs::Presence::Gone;
  }
  std::chrono::nanoseconds took{};
  const auto observed = timed(took, [&] { return observe(); });
  const bool found = observed && !iptables::chains_missing(chains, jumps(), *observed).empty();
  look_pace.looked(now, took, found);
  return found;
}

Proxier::Time Proxier::State::tend(Time now) {
  if (now >= next_tend) next_tend = ledger.forget(now) ? now + kTendPause : Time::max();
  return next_tend;
}

Proxier::Proxier(std::unique_ptr<State> state) : state_(std::move(state)) {}
Proxier::~Proxier() = default;

Result<std::unique_ptr<Proxier>> Proxier::open(Settings settings,
                                               std::shared_ptr<relay::Engine> engine) {
  TRY(iptables::Programs(settings.context.family).probe());
  return std::unique_ptr<Proxier>(
      new Proxier(std::make_unique<State>(std::move(settings), std::move(engine))));
}

net::Family Proxier::family() const { return state_->family(); }

Result<SyncReport> Proxier::sync(const SyncRequest& request) { return state_->sync(request); }

bool Proxier::flushed(bool thorough) { return state_->flushed(thorough); }

Result<std::vector<backend::PortConnections>> Proxier::count_connections(
    const model::Snapshot& /*snapshot*/) {
  return state_->ledger.count_connections();
}

Proxier::Time Proxier::tend(Time now) { return state_->tend(now); }

}  // namespace userspace
