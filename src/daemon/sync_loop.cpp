#include "daemon/sync_loop.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "daemon/timing.h"
#include "log/log.h"

namespace proxyd {
namespace {

using std::chrono::seconds;

// Whoever flushes rules goes from table to table: look again soon, a few times.
constexpr seconds kQuickCheck{1};
constexpr int kQuickChecks = 5;

// After a sync that was large, give freed memory back to the system.
constexpr size_t kTrimBytes = size_t{64} * 1024;

// Periods longer than the maximum interval mean that interval; adding them to a time could overflow.
SyncLoop::Settings bounded(SyncLoop::Settings settings) {
  settings.sync = std::min<Schedule::Duration>(settings.sync, SyncLoop::kMaxInterval);
  return settings;
}

}  // namespace

SyncLoop::SyncLoop(std::unique_ptr<backend::Backend> backend, Settings settings,
                   std::shared_ptr<metrics::Metrics> metrics, Aftermath aftermath,
                   std::function<Time()> clock)
    : backend_(std::move(backend)),
      settings_(bounded(std::move(settings))),
      metrics_(std::move(metrics)),
      aftermath_(std::move(aftermath)),
      clock_(std::move(clock)),
      schedule_({settings_.min_sync, settings_.sync, kMaxInterval}, clock_()),
      mending_(settings_.sync),
      last_full_(clock_()),
      next_check_(clock_() + settings_.sync),
      next_count_(settings_.count.count() > 0 ? clock_() + settings_.count : Time::max()),
      next_tending_(Time::max()) {
  metrics_->sync_queued(backend_->family());
}

void SyncLoop::run(event::Mailbox<Update>& mailbox) {
  Time next = clock_();
  while (true) {
    auto update = mailbox.take_until(next);
    if (mailbox.closed()) return;
    next = turn(std::move(update));
  }
}

SyncLoop::Time SyncLoop::turn(std::optional<Update> update) {
  if (update) take(std::move(*update));
  if (snapshot_ == nullptr) return clock_() + kMaxInterval;
  if (clock_() >= next_check_) check_for_flush();
  if (mending_.due(clock_())) mend();
  if (schedule_.due(clock_())) sync();
  if (clock_() >= next_count_) count_connections();
  if (clock_() >= next_tending_) next_tending_ = backend_->tend(clock_());
  aftermath_.run(clock_());
  return std::min({schedule_.next(), next_check_, mending_.next(), next_count_, next_tending_,
                   aftermath_.next().value_or(Time::max())});
}

void SyncLoop::take(Update update) {
  // The first sync looks at everything anyway.
  if (synced_) mending_.disturbed(update.disturbance, clock_());
  if (update.snapshot == nullptr) return;
  snapshot_ = std::move(update.snapshot);
  dirty_.merge(std::move(update.dirty));
  triggers_.merge(std::move(update.triggers));
  schedule_.request();
  metrics_->sync_queued(backend_->family());
  metrics_->dirty_services(backend_->family(), dirty_.services.size());
  aftermath_.queued();
}

void SyncLoop::check_for_flush() {
  const auto start = clock_();
  const bool flushed = backend_->flushed(quick_checks_ > 0);
  if (!flushed) confirm(clock_() - start);
  // Mode nftables hears of what comes next; the others have to look.
  if (flushed && settings_.mode != "nftables") quick_checks_ = kQuickChecks;
  if (flushed && !writes_rules_only()) {
    mending_.disturbed(backend::Disturbance::Maybe, clock_());
  } else if (flushed) {
    klog::verbose(2, "Reloading after iptables flush", {family_field()});
    full_ = true;
    sync();
  }
  ::malloc_trim(0);  // what looking and, on the loop thread, decoding have left
  const bool quick = quick_checks_ > 0;
  if (quick) --quick_checks_;
  next_check_ = clock_() + (quick ? std::min<Schedule::Duration>(kQuickCheck, settings_.sync)
                                  : settings_.sync);
}

// Parity: mode ipvs knows no other run than one over everything, at least once in a syncPeriod. Here that is a look which
// finds all in order.
void SyncLoop::confirm(std::chrono::nanoseconds took) {
  if (settings_.mode != "ipvs" || !synced_) return;
  metrics_->sync_finished(
      {.family = backend_->family(), .full = true, .ok = true, .duration = took});
}

void SyncLoop::mend() {
  rewrite_ = mending_.begin(clock_()) == backend::Disturbance::Sure || rewrite_;
  full_ = true;
  aftermath_.queued();
  sync();
}

void SyncLoop::count_connections() {
  next_count_ = clock_() + settings_.count;
  auto counted = backend_->count_connections(*snapshot_);
  if (!counted) {
    // Once is enough for what this mode will never do.
    if (counted.error().code == base::ErrorCode::Unsupported) next_count_ = Time::max();
    klog::warning("Could not count connections, ignoring",
                  {family_field(), {"err", counted.error().text}});
    return;
  }
  std::vector<metrics::ServiceConnections> shown;
  shown.reserve(counted->size());
  for (auto& port : *counted) {
    shown.push_back({.ns = std::move(port.service.ns),
                     .service = std::move(port.service.name),
                     .port = std::move(port.port),
                     .protocol = std::string(net::name(port.protocol)),
                     .total = port.total});
  }
  metrics_->service_connections(backend_->family(), std::move(shown));
}

void SyncLoop::sync() {
  const bool hour_passed = clock_() - last_full_ >= kMaxInterval;
  // The zone decides about endpoints of all Services.
  backend::SyncRequest request{snapshot_, dirty_, full_ || hour_passed || dirty_.node, rewrite_};
  schedule_.started();
  if (!synced_) {
    klog::info("Starting the first sync",
               {family_field(), {"services", snapshot_->services.size()}});
  }
  auto report = run_once(request);
  if (!report && !request.full) {
    // The kernel is not as we left it; comparing everything with it most often mends that.
    klog::error("Partial sync failed, trying a full one", report.error().text, {family_field()});
    request.full = true;
    report = run_once(request);
  }
  schedule_.finished(clock_(), report.has_value() && !report->unfinished);
  next_tending_ = backend_->tend(clock_());
  if (report) {
    if (settings_.problems) {
      settings_.problems({.family = backend_->family(),
                          .full = report->full,
                          .services = request.dirty.services,
                          .found = report->problems});
    }
    succeeded(*report);
  } else {
    failed(report.error());
  }
}

base::Result<backend::SyncReport> SyncLoop::run_once(const backend::SyncRequest& request) {
  metrics_->sync_started(backend_->family());
  const auto start = clock_();
  auto report = backend_->sync(request);
  metrics_->sync_finished({.family = backend_->family(),
                           .full = report ? report->full : request.full,
                           .ok = report.has_value(),
                           .duration = clock_() - start});
  return report;
}

void SyncLoop::succeeded(const backend::SyncReport& report) {
  if (report.full) last_full_ = clock_();
  measure(report);
  tell(report);
  full_ = rewrite_ = false;
  synced_ = true;
  const model::DirtySet dirty = std::exchange(dirty_, {});
  const TriggerTimes triggers = std::exchange(triggers_, {});
  aftermath_.synced({.snapshot = snapshot_, .dirty = dirty, .triggers = triggers}, clock_());
  if (report.full || report.bytes > kTrimBytes) ::malloc_trim(0);
}

void SyncLoop::measure(const backend::SyncReport& report) {
  const net::Family family = backend_->family();
  metrics_->dirty_services(family, 0);
  metrics_->sync_stage(family, "observe", report.observe);
  metrics_->sync_stage(family, "plan", report.plan);
  metrics_->sync_stage(family, "render", report.render);
  metrics_->sync_stage(family, "commit", report.commit);
  metrics_->kernel_drifted(family, std::max<size_t>(report.drift, rewrite_ ? 1 : 0));
  metrics_->nftables_cleanup_failed(family, report.cleanup_failures);
  for (const auto& table : report.tables)
    metrics_->iptables_rules(family, table.table, {.total = table.total, .written = table.written});
}

void SyncLoop::tell(const backend::SyncReport& report) {
  for (const auto& warning : report.warnings)
    klog::warning(warning, {family_field()});
  if (rewrite_ || report.drift > 0) tell_mended(report);
  klog::Fields fields{family_field(),
                      {"full", report.full},
                      {"chains", report.chains},
                      {"rules", report.rules},
                      {"endpoints", report.endpoints},
                      {"observeMs", milliseconds(report.observe)},
                      {"planMs", milliseconds(report.plan)},
                      {"renderMs", milliseconds(report.render)},
                      {"commitMs", milliseconds(report.commit)}};
  if (!writes_rules_only()) fields.insert(fields.begin() + 4, {"elements", report.elements});
  if (settings_.mode == "ipvs") {
    fields.insert(fields.begin() + 5, {"servers", report.servers});
    fields.insert(fields.begin() + 6, {"addresses", report.addresses});
  }
  if (std::exchange(failures_, 0) > 0) {
    klog::info("Sync works again", fields);
  } else if (!synced_) {
    klog::info("Synced rules", fields);
  } else {
    klog::verbose(2, "Synced rules", fields);
  }
}

// Who it was, nobody knows.
void SyncLoop::tell_mended(const backend::SyncReport& report) {
  if (!rewrite_) {
    klog::Fields fields{family_field()};
    if (writes_rules_only()) fields.push_back({"chains", report.drift});
    klog::warning("Somebody else had changed our rules, mended", fields);
    return;
  }
  klog::warning("Somebody else had changed our rules, wrote them anew",
                {family_field(),
                 {"chains", report.chains},
                 {"rules", report.rules},
                 {"elements", report.elements},
                 {"timesInARow", mending_.in_a_row()},
                 {"pause", mending_.pause()}});
}

void SyncLoop::failed(const base::Error& error) {
  full_ = true;
  ++failures_;
  triggers_ = {};  // Parity: what was not programmed in time is not measured
  klog::error("Sync failed", error.text,
              {family_field(), {"retryingTime", settings_.sync}, {"failures", failures_}});
}

bool SyncLoop::writes_rules_only() const {
  return settings_.mode == "iptables" || settings_.mode == "userspace";
}

klog::Field SyncLoop::family_field() const { return {"ipFamily", net::name(backend_->family())}; }

}  // namespace proxyd
