#include "daemon/aftermath.h"

#include <algorithm>
#include <utility>

#include "daemon/timing.h"
#include "log/log.h"

namespace proxyd {
Aftermath::Aftermath(Parts parts) : parts_(std::move(parts)) {
  parts_.health->updated(parts_.context.family);
}

void Aftermath::queued() { parts_.health->queued(parts_.context.family); }

void Aftermath::synced(const Synced& sync, Time now) {
  const net::Family family = parts_.context.family;
  parts_.context.zone = sync.snapshot->node != nullptr ? sync.snapshot->node->zone : std::string();
  observe_latencies(sync.triggers);
  const bool udp_changed = take_in(sync);
  sweep_owed_ = (udp_changed && parts_.sweep != nullptr) || sweep_owed_;
  parts_.metrics->no_local_endpoints(family, internal_without_local_, external_without_local_);
  parts_.health->updated(family);
  show_ports();
  programmed_ = sync.snapshot;
  settle(now);
  if (parts_.resets) parts_.resets->synced(sync.snapshot, sync.dirty, now);
  if (!std::exchange(synced_, true)) parts_.first_synced();
}

std::optional<Aftermath::Time> Aftermath::next() const {
  const auto reset = parts_.resets ? parts_.resets->next() : std::nullopt;
  if (!sweep_owed_) return reset;
  return std::min(reset.value_or(sweep_again_), sweep_again_);
}

void Aftermath::run(Time now) {
  if (sweep_owed_ && now >= sweep_again_) settle(now);
  if (parts_.resets) parts_.resets->run(now);
}

void Aftermath::settle(Time now) {
  sweep_owed_ = sweep_owed_ && !clean_flows();
  sweep_again_ = now + kSweepAgain;
  if (!sweep_owed_) swept_ = programmed_;
}

void Aftermath::observe_latencies(const TriggerTimes& triggers) {
  const auto now = parts_.clock();
  for (const auto& time : triggers.of(parts_.context.family))
    parts_.metrics->network_programmed(parts_.context.family, now - time);
}

bool Aftermath::take_in(const Synced& sync) {
  bool udp = false;
  if (!synced_) {
    sync.snapshot->services.for_each([&](const model::ServiceEntryPtr& entry) {
      udp = take_in(entry->key, entry.get()) || udp;
    });
    return udp;
  }
  for (const auto& key : sync.dirty.services)
    udp = take_in(key, sync.snapshot->services.find(key).get()) || udp;
  return udp;
}

bool Aftermath::take_in(const model::ServiceKey& key, const model::ServiceEntry* entry) {
  plan::ServiceSummary now =
      entry != nullptr ? plan::summarize(*entry, parts_.context) : plan::ServiceSummary{};
  if (parts_.counts_services) {
    now.internal_without_local = std::min(now.internal_without_local, 1U);
    now.external_without_local = std::min(now.external_without_local, 1U);
  }
  const auto known = summaries_.find(key);
  const plan::ServiceSummary before =
      known != summaries_.end() ? known->second : plan::ServiceSummary{};
  internal_without_local_ =
      internal_without_local_ + now.internal_without_local - before.internal_without_local;
  external_without_local_ =
      external_without_local_ + now.external_without_local - before.external_without_local;
  ports_changed_ = ports_changed_ || now.health_check_node_port != before.health_check_node_port ||
                   now.local_ready != before.local_ready;
  if (now != plan::ServiceSummary{}) {
    summaries_.insert_or_assign(key, now);
  } else if (known != summaries_.end()) {
    summaries_.erase(known);
  }
  return now.udp || before.udp;
}

void Aftermath::show_ports() {
  if (std::exchange(ports_changed_, false)) {
    auto ports = std::make_shared<serve::HealthPorts>();
    for (const auto& [key, summary] : summaries_) {
      if (summary.health_check_node_port == 0) continue;
      ports->emplace_hint(ports->end(), key,
                          serve::HealthPort{.port = summary.health_check_node_port,
                                            .local_endpoints = summary.local_ready});
    }
    ports_ = std::move(ports);
  }
  parts_.publish(ports_);
}

bool Aftermath::clean_flows() {
  const klog::Field family{"ipFamily", net::name(parts_.context.family)};
  const auto start = std::chrono::steady_clock::now();
  const plan::FlowJudge judge(swept_.get(), *programmed_, parts_.context,
                              parts_.node_port_addresses());
  if (judge.idle()) return true;
  const auto swept = parts_.sweep(judge);
  if (!swept) {
    klog::error("Failed to list conntrack entries", swept.error().text, {family});
    return false;
  }
  const auto took = std::chrono::steady_clock::now() - start;
  parts_.metrics->conntrack_reconciled(parts_.context.family, took, swept->deleted);
  if (swept->interrupted)
    klog::verbose(2, "The conntrack table changed while it was read, going on with what was seen",
                  {family});
  klog::verbose(swept->deleted > 0 ? 2 : 4, "Cleared stale connections",
                {family,
                 {"seen", swept->seen},
                 {"deleted", swept->deleted},
                 {"milliseconds", milliseconds(took)}});
  if (swept->failure)
    klog::error("Failed to clear all conntrack entries", swept->failure->text, {family});
  return !swept->failure;
}

}  // namespace proxyd
