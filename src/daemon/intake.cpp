#include "daemon/intake.h"

#include <algorithm>
#include <utility>

#include "log/log.h"

namespace proxyd {
namespace {

// Services that are not proxied, as kube-proxy words it.
void tell_skipped(const model::Change& change) {
  const auto* service = std::get_if<std::shared_ptr<const model::Service>>(&change);
  if (service == nullptr || (*service)->skip == model::SkipReason::None) return;
  const bool external_name = (*service)->type == model::ServiceType::ExternalName;
  klog::verbose(3,
                external_name ? "Skipping service due to Type=ExternalName"
                              : "Skipping service due to cluster IP",
                {{"service", (*service)->key.str()}});
}

// The addresses that a node goes by: its first, and the first of the other family.
std::vector<net::IpAddr> chosen(const std::vector<net::IpAddr>& addresses) {
  std::vector<net::IpAddr> out;
  for (const auto& address : addresses) {
    if (out.empty() || (out.size() == 1 && address.family() != out[0].family()))
      out.push_back(address);
  }
  return out;
}

}  // namespace

Intake::Intake(const config::Config& config, const std::string& node_name,
               metrics::Metrics& metrics, Listeners listeners)
    : config_(config), store_(node_name), metrics_(metrics), listeners_(std::move(listeners)) {}

size_t Intake::take(std::vector<model::Change> changes) {
  model::DirtySet dirty;
  for (auto& change : changes) {
    tell_skipped(change);
    if (const auto* gone = std::get_if<model::NodeDeleted>(&change))
      klog::info("Node is being deleted", {{"node", gone->name}});
    dirty.merge(fold(std::move(change)));
  }
  const size_t services = dirty.services.size();
  if (dirty.node) check_node();
  // The first sync compares everything, whatever has changed before it.
  if (handed_on_) dirty_.merge(std::move(dirty));
  hand_on();
  return services;
}

model::DirtySet Intake::fold(model::Change change) {
  const model::Change told = change;  // a pointer or a key
  const auto* deleted = std::get_if<model::SliceDeleted>(&told);
  const auto gone = deleted != nullptr ? family_of(deleted->key) : std::nullopt;
  count(told, gone);
  model::DirtySet dirty = store_.fold(std::move(change));
  if (std::holds_alternative<std::shared_ptr<const model::Node>>(told)) tell_node();
  if (dirty.empty()) return dirty;
  if (gone) triggers_.forget(*gone, deleted->key.service);
  if (const auto* slice = std::get_if<std::shared_ptr<const model::EndpointSlice>>(&told)) {
    const model::EndpointSlice& changed = **slice;
    if (changed.trigger_time > started_)
      triggers_.add(changed.family, changed.service, changed.trigger_time);
  }
  return dirty;
}

std::optional<net::Family> Intake::family_of(const model::SliceKey& key) const {
  const auto entry = store_.snapshot()->services.find(key.service);
  if (entry == nullptr) return std::nullopt;
  const auto slice =
      std::ranges::find(entry->slices, key.name, [](const auto& one) { return one->name; });
  return slice != entry->slices.end() ? std::optional((*slice)->family) : std::nullopt;
}

void Intake::complete() {
  complete_ = true;
  hand_on();
}

void Intake::open(std::map<net::Family, Mailbox> mailboxes) {
  mailboxes_ = std::move(mailboxes);
  count_what_is_there();
  hand_on();
}

// Manifests are read before it is known which families are served.
void Intake::count_what_is_there() {
  store_.snapshot()->services.for_each([this](const model::ServiceEntryPtr& entry) {
    if (entry->service != nullptr) count(entry->service, std::nullopt);
    for (const auto& slice : entry->slices)
      count(slice, std::nullopt);
  });
}

void Intake::hand_on() {
  if (!complete_ || mailboxes_.empty()) return;
  // Even a cluster without any Service gets its first sync.
  if (std::exchange(handed_on_, true) && dirty_.empty()) return;
  const Update update{store_.snapshot(), std::exchange(dirty_, {}), std::exchange(triggers_, {})};
  for (const auto& [family, mailbox] : mailboxes_) {
    // Here, not where the letter is taken out: a sync thread that hangs must not pass for one with nothing to do.
    listeners_.queued(family);
    mailbox->put(update);
  }
}

void Intake::count(const model::Change& change, std::optional<net::Family> gone) {
  if (std::holds_alternative<std::shared_ptr<const model::Service>>(change) ||
      std::holds_alternative<model::ServiceDeleted>(change))
    metrics_.service_changed(mailboxes_.size());
  std::optional<net::Family> family = gone;
  if (const auto* slice = std::get_if<std::shared_ptr<const model::EndpointSlice>>(&change))
    family = (*slice)->family;
  if (family && mailboxes_.contains(*family)) metrics_.endpoints_changed();
}

void Intake::remember_node() {
  node_remembered_ = true;
  if (const auto node = store_.snapshot()->node; node != nullptr) node_at_start_ = *node;
}

void Intake::tell_node() {
  if (const auto node = store_.snapshot()->node; node != nullptr) listeners_.node_seen(*node);
}

// Parity: what was read from the Node at start stays in force; podCIDRs are reason to start anew.
void Intake::check_node() {
  if (!node_remembered_) return;
  const auto node = store_.snapshot()->node;
  if (node->pod_cidrs != node_at_start_.pod_cidrs && config_.detect_local_mode == "NodeCIDR") {
    klog::info("PodCIDRs changed for the node", {{"node", node->name}});
    listeners_.end("PodCIDRs changed for the node");
  }
  if (chosen(node->addresses) != chosen(node_at_start_.addresses))
    klog::info("NodeIPs changed for the node", {{"node", node->name}});
}

}  // namespace proxyd
