#include "daemon/reset_watch.h"

#include <algorithm>
#include <utility>

#include "log/log.h"

namespace proxyd {

using plan::TcpEnd;

namespace {

// Added to a time, a longer one could overflow.
constexpr Schedule::Duration kLongestDrain = std::chrono::years(1);

}  // namespace

ResetWatch::ResetWatch(net::Family family, Schedule::Duration drain, Kernel kernel)
    : family_(family),
      drain_(std::min(drain, kLongestDrain)),
      kernel_(std::move(kernel)),
      uses_(family) {}

void ResetWatch::synced(model::SnapshotPtr snapshot, const model::DirtySet& dirty, Time now) {
  const bool first = snapshot_ == nullptr;
  if (first) {
    snapshot_ = std::make_shared<const model::Snapshot>();
    started_ = now;
  }
  note_gone(first ? plan::changes(snapshot_->services, snapshot->services)
                  : plan::changes(snapshot_->services, snapshot->services, dirty.services),
            now);
  snapshot_ = std::move(snapshot);
}

void ResetWatch::note_gone(const std::vector<plan::EntryChange>& changes, Time now) {
  const auto gone = uses_.update(changes);
  std::erase_if(gone_, [&](const auto& entry) { return uses_.contains(entry.first); });
  if (gone.empty()) return;
  auto by = std::make_shared<plan::FrontEnds>();
  for (const auto& change : changes)
    if (change.before) by->add(*change.before);
  for (const TcpEnd& endpoint : gone)
    gone_[endpoint] = {now, by};
}

std::optional<ResetWatch::Time> ResetWatch::next() const {
  std::optional<Time> first = started_;
  for (const auto& [endpoint, gone] : gone_)
    first = first ? std::min(*first, gone.since) : gone.since;
  if (first) first = std::max(*first + drain_, not_before_);
  if (first && clear_at_) return std::min(*first, *clear_at_);
  return first ? first : clear_at_;
}

void ResetWatch::run(Time now) {
  const bool any = std::any_of(gone_.begin(), gone_.end(),
                               [&](const auto& entry) { return due(entry.second, now); });
  if ((any || strangers_due(now)) && now >= not_before_) reset(now);
  if (clear_at_ && *clear_at_ <= now) clear();
}

void ResetWatch::reset(Time now) {
  plan::FrontEnds current;
  snapshot_->services.for_each([&](const auto& entry) { current.add(*entry); });
  here_ = kernel_.node_port_addresses();
  const auto flows =
      kernel_.reset([&](const net::Flow& flow) { return doomed(flow, current, now); }, kMaxFlows);
  if (flows) {
    finish_round(*flows, now);
  } else {
    not_before_ = now + kRetry;
    clear_at_ = now + kernel_.linger;  // the rules may be there
    forget_old(now);
    klog::error("Cannot reset connections to removed endpoints", flows.error().text,
                {{"ipFamily", net::name(family_)}, {"retryingTime", kRetry}});
  }
}

bool ResetWatch::doomed(const net::Flow& flow, const plan::FrontEnds& current, Time now) const {
  const TcpEnd endpoint{flow.reply.source, flow.reply.source_port};
  const auto found = gone_.find(endpoint);
  if (found != gone_.end()) {
    const Gone& gone = found->second;
    return due(gone, now) && (gone.by->redirected(flow, here_) || current.redirected(flow, here_));
  }
  return strangers_due(now) && !uses_.contains(endpoint) && current.redirected(flow, here_);
}

void ResetWatch::finish_round(const std::vector<net::Flow>& flows, Time now) {
  if (flows.empty()) return forget_due(now);
  // Again until there are none: some may be over the limit, or have been missed in a table that changes.
  not_before_ = now + kPause;
  clear_at_ = now + kernel_.linger;
  std::unordered_set<TcpEnd, plan::TcpEndHash> endpoints;
  for (const auto& flow : flows)
    endpoints.insert({flow.reply.source, flow.reply.source_port});
  klog::info(
      "Reset connections to removed endpoints",
      {{"ipFamily", net::name(family_)}, {"endpoints", endpoints.size()}, {"flows", flows.size()}});
}

void ResetWatch::forget_due(Time now) {
  std::erase_if(gone_, [&](const auto& entry) { return due(entry.second, now); });
  if (strangers_due(now)) started_.reset();
}

void ResetWatch::forget_old(Time now) {
  std::erase_if(gone_, [&](const auto& entry) {
    return due(entry.second, now) && entry.second.since + drain_ + kPatience <= now;
  });
}

void ResetWatch::clear() {
  clear_at_.reset();
  if (const auto cleared = kernel_.clear(); !cleared)
    klog::error("Cannot remove the rules that reset connections, ignoring", cleared.error().text,
                {{"ipFamily", net::name(family_)}});
}

}  // namespace proxyd
