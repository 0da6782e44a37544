#include "daemon/intake.h"

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
               metrics::Metrics& metrics, std::function<void(std::string)> end)
    : config_(config), store_(node_name), metrics_(metrics), end_(std::move(end)) {}

size_t Intake::take(std::vector<model::Change> changes) {
  model::DirtySet dirty;
  for (auto& change : changes) {
    tell_skipped(change);
    count(change);
    if (const auto* gone = std::get_if<model::NodeDeleted>(&change))
      klog::info("Node is being deleted", {{"node", gone->name}});
    dirty.merge(store_.fold(std::move(change)));
  }
  const size_t services = dirty.services.size();
  if (dirty.node) check_node();
  // The first sync compares everything, whatever has changed before it.
  if (handed_on_) dirty_.merge(std::move(dirty));
  hand_on();
  return services;
}

void Intake::complete() {
  complete_ = true;
  hand_on();
}

void Intake::open(std::map<net::Family, Mailbox> mailboxes) {
  mailboxes_ = std::move(mailboxes);
  hand_on();
}

void Intake::hand_on() {
  if (!complete_ || mailboxes_.empty()) return;
  // Even a cluster without any Service gets its first sync.
  if (std::exchange(handed_on_, true) && dirty_.empty()) return;
  const Update update{store_.snapshot(), std::exchange(dirty_, {})};
  for (const auto& [_, mailbox] : mailboxes_)
    mailbox->put(update);
}

void Intake::count(const model::Change& change) {
  using Slice = std::shared_ptr<const model::EndpointSlice>;
  if (std::holds_alternative<std::shared_ptr<const model::Service>>(change) ||
      std::holds_alternative<model::ServiceDeleted>(change))
    metrics_.service_changed(mailboxes_.size());
  const auto* slice = std::get_if<Slice>(&change);
  const bool ours = slice != nullptr && mailboxes_.contains((*slice)->family);
  if (ours || std::holds_alternative<model::SliceDeleted>(change)) metrics_.endpoints_changed();
}

void Intake::remember_node() {
  node_remembered_ = true;
  if (const auto node = store_.snapshot()->node; node != nullptr) node_at_start_ = *node;
}

// Parity: what was read from the Node at start stays in force; podCIDRs are reason to start anew.
void Intake::check_node() {
  if (!node_remembered_) return;
  const auto node = store_.snapshot()->node;
  if (node->pod_cidrs != node_at_start_.pod_cidrs && config_.detect_local_mode == "NodeCIDR") {
    klog::info("PodCIDRs changed for the node", {{"node", node->name}});
    end_("PodCIDRs changed for the node");
  }
  if (chosen(node->addresses) != chosen(node_at_start_.addresses))
    klog::info("NodeIPs changed for the node", {{"node", node->name}});
}

}  // namespace proxyd
