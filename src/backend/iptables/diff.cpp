#include "backend/iptables/diff.h"

#include <algorithm>

namespace iptables {
namespace {

using plan::ServicePlan;

constexpr std::array kSharedOrder{SharedChain::FilterServices,  SharedChain::FilterExternal,
                                  SharedChain::FilterNodePorts, SharedChain::FilterFirewall,
                                  SharedChain::NatServices,     SharedChain::NatNodePorts};

using SharedSet = std::array<bool, kSharedChains>;  // which shared chains must be written

size_t lines_in(std::string_view text) {
  return static_cast<size_t>(std::ranges::count(text, '\n'));
}

void add(RuleCounts& sum, const RuleCounts& more) {
  for (size_t i = 0; i < sum.size(); ++i)
    sum[i] += more[i];
}

void subtract(RuleCounts& sum, const RuleCounts& less) {
  for (size_t i = 0; i < sum.size(); ++i)
    sum[i] -= less[i];
}

RuleCounts count_rules(const ServiceRules& rules) {
  RuleCounts counts{};
  counts[static_cast<size_t>(Table::Nat)] = lines_in(rules.text);
  for (const SharedChain chain : kSharedOrder)
    counts[static_cast<size_t>(table_of(chain))] +=
        lines_in(rules.shared[static_cast<size_t>(chain)]);
  return counts;
}

ServiceRecord make_record(const ServicePlan& plan, const ServiceRules& rules) {
  ServiceRecord record;
  record.shared = SharedLines(rules.shared);
  record.chains.reserve(rules.chains.size());
  for (const auto& chain : rules.chains)
    record.chains.push_back({chain.name, chain.digest});
  record.endpoints = static_cast<uint32_t>(plan.endpoint_count());
  record.rules = count_rules(rules);
  return record;
}

// All rules of a shared chain, in order: the Services by namespace and name, then the tail.
template <typename Visit>
void for_each_shared(const Ledger& ledger, SharedChain chain, Visit&& visit) {
  for (const auto& [_, record] : ledger.services)
    visit(record.shared.lines(chain));
  if (chain == SharedChain::NatServices) visit(ledger.tail);
}

void write_shared(const Ledger& ledger, SharedChain chain, TransactionBuilder& out) {
  out.open_chain(table_of(chain), name(chain));
  for_each_shared(ledger, chain,
                  [&](std::string_view lines) { out.add_rules(table_of(chain), lines); });
}

uint64_t shared_digest(const Ledger& ledger, SharedChain chain) {
  RuleDigest digest;
  for_each_shared(ledger, chain, [&](std::string_view lines) { digest.add_lines(lines); });
  return digest.value();
}

// Does the kernel hold this chain with these rules?
bool holds(const ObservedTable& table, std::string_view chain, uint64_t digest) {
  const auto found = table.chains.find(chain);
  return found != table.chains.end() && found->second.rules.value() == digest;
}

// ---- full

class FullDiff {
 public:
  FullDiff(const SyncInput& input, Observed& observed, Ledger& ledger)
      : input_(input), observed_(observed), ledger_(ledger) {}

  Transaction run(std::vector<ServicePlan> plans, Stale what_to_do) {
    ledger_ = Ledger{};
    ledger_.tail = node_port_tail(input_.options, input_.node_ports);
    ledger_.rules[static_cast<size_t>(Table::Nat)] = lines_in(ledger_.tail);
    fixed();
    services(std::move(plans));
    shared();
    jump_rules();
    stale(what_to_do);
    return out_.finish();
  }

 private:
  void fixed() {
    for (const auto& chain : fixed_chains(input_.options)) {
      if (!holds(observed_[chain.table], chain))
        out_.write_chain(chain.table, chain.name, chain.rules);
      ledger_.rules[static_cast<size_t>(chain.table)] += lines_in(chain.rules);
    }
  }

  // Takes the plans, so that they are gone when the shared chains are written.
  void services(std::vector<ServicePlan> plans) {
    for (const auto& plan : plans)
      ledger_.endpoints += plan.endpoint_count();
    ServiceRules rules;
    for (const auto& plan : plans) {
      render_service(plan, input_.options, ledger_.large(), rules);
      service_chains(rules);
      const auto added =
          ledger_.services.emplace_hint(ledger_.services.end(), plan.key, make_record(plan, rules));
      add(ledger_.rules, added->second.rules);
    }
  }

  void service_chains(const ServiceRules& rules) {
    ObservedTable& nat = observed_[Table::Nat];
    std::string name;
    for (const auto& chain : rules.chains) {
      name.clear();
      chain.name.append_to(name);
      if (!holds(nat, name, chain.digest)) out_.write_chain(Table::Nat, name, rules.rules(chain));
      nat.chains.erase(name);  // what is left at the end is stale
    }
  }

  void shared() {
    for (const SharedChain chain : kSharedOrder) {
      if (!holds(observed_[table_of(chain)], name(chain), shared_digest(ledger_, chain))) {
        write_shared(ledger_, chain, out_);
      }
    }
  }

  void jump_rules() {
    for (const Jump& jump : jumps()) {
      const std::string rule = jump.rule();
      if (!observed_[jump.table].has_jump(rule)) out_.insert_at_top(jump.table, rule);
    }
  }

  void stale(Stale what_to_do) {
    for (const auto& [name, chain] : observed_[Table::Nat].chains) {
      if (!is_service_chain(name)) continue;
      if (what_to_do == Stale::Delete) {
        out_.delete_chain(Table::Nat, name);
      } else if (chain.rules.value() != RuleDigest().value()) {
        out_.write_chain(Table::Nat, name, "");
      }
    }
  }

  const SyncInput& input_;
  Observed& observed_;
  Ledger& ledger_;
  TransactionBuilder out_;
};

// ---- partial

class PartialDiff {
 public:
  PartialDiff(const SyncInput& input, Ledger& ledger) : input_(input), ledger_(ledger) {}

  Transaction run(const std::vector<ServicePlan>& plans) {
    // Before the first rule: whether the cluster is large counts for all of them.
    for (const auto& plan : plans)
      count_endpoints(plan);
    for (const auto& plan : plans)
      replace(plan);
    std::string tail = node_port_tail(input_.options, input_.node_ports);
    if (tail != ledger_.tail) {
      size_t& nat_rules = ledger_.rules[static_cast<size_t>(Table::Nat)];
      nat_rules = nat_rules - lines_in(ledger_.tail) + lines_in(tail);
      ledger_.tail = std::move(tail);
      affected_[static_cast<size_t>(SharedChain::NatServices)] = true;
    }
    for (const SharedChain chain : kSharedOrder) {
      if (affected_[static_cast<size_t>(chain)]) write_shared(ledger_, chain, out_);
    }
    return out_.finish();
  }

 private:
  void count_endpoints(const ServicePlan& plan) {
    const auto known = ledger_.services.find(plan.key);
    if (known != ledger_.services.end()) ledger_.endpoints -= known->second.endpoints;
    ledger_.endpoints += plan.endpoint_count();
  }

  void replace(const ServicePlan& plan) {
    render_service(plan, input_.options, ledger_.large(), rules_);
    ServiceRecord now = make_record(plan, rules_);
    ServiceRecord& before = ledger_.services[plan.key];
    write_changed(before);
    delete_stale(before, now);
    for (const SharedChain chain : kSharedOrder) {
      if (before.shared.lines(chain) != now.shared.lines(chain)) {
        affected_[static_cast<size_t>(chain)] = true;
      }
    }
    subtract(ledger_.rules, before.rules);
    add(ledger_.rules, now.rules);
    if (plan.ports.empty()) {
      ledger_.services.erase(plan.key);
    } else {
      before = std::move(now);
    }
  }

  void write_changed(const ServiceRecord& before) {
    for (const auto& chain : rules_.chains) {
      const auto known = std::ranges::find(before.chains, chain.name, &ServiceRecord::Mark::name);
      if (known != before.chains.end() && known->digest == chain.digest) continue;
      out_.write_chain(Table::Nat, chain.name.str(), rules_.rules(chain));
    }
  }

  void delete_stale(const ServiceRecord& before, const ServiceRecord& now) {
    for (const auto& mark : before.chains) {
      const auto kept = std::ranges::find(now.chains, mark.name, &ServiceRecord::Mark::name);
      if (kept == now.chains.end()) out_.delete_chain(Table::Nat, mark.name.str());
    }
  }

  const SyncInput& input_;
  Ledger& ledger_;
  TransactionBuilder out_;
  ServiceRules rules_;
  SharedSet affected_{};
};

}  // namespace

SharedLines::SharedLines(const std::array<std::string, kSharedChains>& lines) {
  size_t size = 0;
  for (const auto& part : lines)
    size += part.size();
  text_.reserve(size);
  for (size_t i = 0; i < kSharedChains; ++i) {
    text_ += lines[i];
    ends_[i] = static_cast<uint32_t>(text_.size());
  }
}

std::string_view SharedLines::lines(SharedChain chain) const {
  const auto i = static_cast<size_t>(chain);
  const uint32_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(text_).substr(begin, ends_[i] - begin);
}

bool holds(const ObservedTable& table, const FixedChain& chain) {
  return chain.content_ours ? holds(table, chain.name, digest_of(chain.rules))
                            : table.chains.contains(chain.name);
}

size_t count_drift(const RuleOptions& options, const Ledger& ledger, const Observed& observed) {
  size_t drift = 0;
  for (const auto& chain : fixed_chains(options))
    drift += !chain.shared && !holds(observed[chain.table], chain);
  for (const Jump& jump : jumps())
    drift += !observed[jump.table].has_jump(jump.rule());
  std::string name_text;
  for (const auto& [_, record] : ledger.services) {
    for (const auto& mark : record.chains) {
      name_text.clear();
      mark.name.append_to(name_text);
      drift += !holds(observed[Table::Nat], name_text, mark.digest);
    }
  }
  for (const SharedChain chain : kSharedOrder)
    drift += !holds(observed[table_of(chain)], name(chain), shared_digest(ledger, chain));
  return drift;
}

Transaction diff_full(const SyncInput& input, std::vector<ServicePlan> plans, Observed observed,
                      Ledger& ledger, Stale stale) {
  return FullDiff(input, observed, ledger).run(std::move(plans), stale);
}

Transaction diff_partial(const SyncInput& input, const std::vector<ServicePlan>& plans,
                         Ledger& ledger) {
  return PartialDiff(input, ledger).run(plans);
}

}  // namespace iptables
