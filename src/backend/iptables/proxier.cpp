#include "backend/iptables/proxier.h"

#include <algorithm>

#include "backend/stopwatch.h"
#include "kernel/addresses.h"
#include "kernel/netfilter.h"
#include "kernel/sysctl.h"

namespace iptables {
namespace {

using backend::timed;
using base::ErrorCode;
using base::Result;
using Clock = std::chrono::steady_clock;

constexpr const char* kTcpLiberal = "net/netfilter/nf_conntrack_tcp_be_liberal";

}  // namespace

bool Settings::serves_localhost() const {
  if (family != net::Family::V4 || !localhost_node_ports) return false;
  const net::IpAddr loopback = net::IpAddr::v4(0x7f000000);
  return node_ports_everywhere || std::ranges::any_of(node_port_cidrs, [&](const net::Cidr& cidr) {
           return cidr.base().is_loopback() || cidr.contains(loopback);
         });
}

Capabilities likely_capabilities(net::Family family) {
  Capabilities capabilities;
  capabilities.random_fully = Programs(family).random_fully();
  capabilities.tcp_liberal = kernel::read_sysctl(kTcpLiberal).value_or(0) != 0;
  const auto counters = kernel::probe_counters();
  const bool missing = !counters && counters.error().code == ErrorCode::Unsupported;
  capabilities.count_invalid = capabilities.count_localhost = !missing;
  return capabilities;
}

RuleOptions rule_options(const Settings& settings, const Capabilities& capabilities) {
  RuleOptions options;
  options.family = settings.family;
  options.masquerade_mark = settings.masquerade_mark;
  options.masquerade_all = settings.masquerade_all;
  options.random_fully = capabilities.random_fully;
  options.localhost_node_ports = settings.serves_localhost();
  options.invalid_drop = !capabilities.tcp_liberal;
  options.count_invalid = capabilities.count_invalid;
  options.count_localhost = capabilities.count_localhost;
  options.local_traffic = settings.local_traffic;
  return options;
}

plan::Context plan_context(const Settings& settings, const model::Snapshot& snapshot) {
  plan::Context context;
  context.family = settings.family;
  context.node_name = settings.node_name;
  context.zone = snapshot.node != nullptr ? snapshot.node->zone : std::string();
  context.node_ip = settings.node_ip;
  context.external_ips = settings.external_ips;
  return context;
}

Result<NodePortAddresses> node_port_addresses(const Settings& settings) {
  NodePortAddresses result;
  result.all = settings.node_ports_everywhere;
  if (result.all) return result;
  for (const auto& address : TRY(kernel::interface_addresses())) {
    const bool wanted = std::ranges::any_of(
        settings.node_port_cidrs, [&](const net::Cidr& cidr) { return cidr.contains(address.ip); });
    if (wanted) result.addresses.push_back(address.ip);
  }
  std::ranges::sort(result.addresses);
  const auto repeated = std::ranges::unique(result.addresses);
  result.addresses.erase(repeated.begin(), repeated.end());
  return result;
}

Proxier::Proxier(Settings settings) : settings_(std::move(settings)), programs_(settings_.family) {}

std::vector<Proxier::Notice> Proxier::probe() {
  std::vector<Notice> notices;
  capabilities_.random_fully = programs_.random_fully();
  capabilities_.tcp_liberal = kernel::read_sysctl(kTcpLiberal).value_or(0) != 0;
  if (capabilities_.tcp_liberal) {
    notices.push_back(
        {"nf_conntrack_tcp_be_liberal set, not installing DROP rules for INVALID packets"});
  }
  const auto counters = kernel::probe_counters();
  counters_supported_ = counters.has_value();
  if (!counters) notices.push_back({"failed to initialize nfacct client", counters.error().text});
  return notices;
}

void Proxier::ensure_counters(backend::SyncReport& report) {
  const auto ensure = [&](const char* name) {
    if (!counters_supported_) return false;
    const auto made = kernel::ensure_counter(name);
    if (!made) report.warnings.push_back("nfacct counter left out, ignoring: " + made.error().text);
    return made.has_value();
  };
  capabilities_.count_invalid = ensure(kInvalidCounter);
  capabilities_.count_localhost = ensure(kLocalhostCounter);
}

Result<Transaction> Proxier::full_transaction(const model::Snapshot& snapshot,
                                              const SyncInput& input, Stale stale,
                                              backend::SyncReport& report) {
  Observed observed = TRY(timed(report.observe, [&] { return programs_.observe_all(); }));
  if (std::exchange(ledger_valid_, false))
    report.drift = count_drift(input.options, ledger_, observed);
  auto plans = timed(report.plan, [&] {
    return plan::compile_all(snapshot.services, plan_context(settings_, snapshot));
  });
  return timed(report.render, [&] {
    return diff_full(input, std::move(plans), std::move(observed), ledger_, stale);
  });
}

Transaction Proxier::partial_transaction(const backend::SyncRequest& request,
                                         const SyncInput& input, backend::SyncReport& report) {
  const auto& snapshot = *request.snapshot;
  const auto plans = timed(report.plan, [&] {
    return plan::compile_some(snapshot.services, request.dirty.services,
                              plan_context(settings_, snapshot));
  });
  return timed(report.render, [&] { return diff_partial(input, plans, ledger_); });
}

Result<> Proxier::commit(const model::Snapshot& snapshot, const SyncInput& input,
                         Transaction transaction, backend::SyncReport& report) {
  const auto restore = [&](Transaction one) {
    report.chains = one.chains;
    report.rules = one.rule_count();
    report.tables = {{"filter", 0, one.rules[static_cast<size_t>(Table::Filter)]},
                     {"nat", 0, one.rules[static_cast<size_t>(Table::Nat)]}};
    report.bytes = one.bytes();
    return timed(report.commit, [&] { return programs_.restore(std::move(one)); });
  };
  const bool deletes = transaction.deletes > 0;
  const auto first = restore(std::move(transaction));
  if (first || !report.full || !deletes || first.error().code == base::ErrorCode::Lost)
    return first;
  auto without_deletes = full_transaction(snapshot, input, Stale::Empty, report);
  if (!without_deletes || !restore(std::move(*without_deletes))) return first;
  report.warnings.push_back(
      "a rule of somebody else jumps to a chain that is no longer wanted; emptied it instead of "
      "deleting it, ignoring: " +
      first.error().text);
  return {};
}

Result<backend::SyncReport> Proxier::sync(const backend::SyncRequest& request) {
  backend::SyncReport report;
  report.full = request.full || !ledger_valid_ || request.dirty.node;
  if (report.full) ensure_counters(report);

  const RuleOptions options = rule_options(settings_, capabilities_);
  const NodePortAddresses node_ports = node_ports_or_none(report);
  const SyncInput input{options, node_ports};

  Transaction transaction =
      report.full ? TRY(full_transaction(*request.snapshot, input, Stale::Delete, report))
                  : partial_transaction(request, input, report);
  ledger_valid_ = false;  // until the commit succeeded
  TRY(commit(*request.snapshot, input, std::move(transaction), report));
  ledger_valid_ = true;
  report.endpoints = ledger_.endpoints;
  report.tables[0].total = ledger_.rules[static_cast<size_t>(Table::Filter)];
  report.tables[1].total = ledger_.rules[static_cast<size_t>(Table::Nat)];
  return report;
}

NodePortAddresses Proxier::node_ports_or_none(backend::SyncReport& report) const {
  if (auto found = node_port_addresses(settings_)) {
    for (const auto& ip : found->addresses) {
      const bool unusable = ip.is_loopback() && !settings_.serves_localhost();
      if (unusable && report.full)
        report.warnings.push_back("node ports cannot be served on loopback address " + ip.str() +
                                  ", ignoring");
    }
    return std::move(*found);
  } else {
    // Parity: without the list no node port is reachable, and the rest works.
    report.warnings.push_back("no node-port addresses, ignoring: " + found.error().text);
    return {.all = false, .addresses = {}};
  }
}

Result<Transaction> Proxier::preview(const model::Snapshot& snapshot) {
  capabilities_.count_invalid = capabilities_.count_localhost = counters_supported_;
  const RuleOptions options = rule_options(settings_, capabilities_);
  const NodePortAddresses node_ports = TRY(node_port_addresses(settings_));
  Ledger ledger;
  auto plans = plan::compile_all(snapshot.services, plan_context(settings_, snapshot));
  return diff_full({options, node_ports}, std::move(plans), TRY(programs_.observe_all()), ledger);
}

bool Proxier::flushed(bool thorough) {
  if (!ledger_valid_) return false;
  const auto now = std::chrono::steady_clock::now();
  if (look_pace_.is_due(now, thorough)) return drifted(now);
  // iptables-legacy reads a whole table to look at one chain of it: the mangle table is small.
  return programs_.chain_presence(Table::Mangle, kCanary) == Programs::Presence::Gone;
}

// Reads everything, and sees to it that this costs little of the time.
bool Proxier::drifted(std::chrono::steady_clock::time_point now) {
  std::chrono::nanoseconds took{};
  const auto observed = timed(took, [&] { return programs_.observe_all(); });
  const bool found =
      observed && count_drift(rule_options(settings_, capabilities_), ledger_, *observed) > 0;
  look_pace_.looked(now, took, found);
  return found;
}

Result<std::vector<backend::PortConnections>> Proxier::count_connections(
    const model::Snapshot& snapshot) {
  return connections_.add(TRY(programs_.connections()), snapshot, settings_.family);
}

}  // namespace iptables
