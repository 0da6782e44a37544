#include "daemon/sync_loop.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "log/log.h"

namespace proxyd {
namespace {

using std::chrono::seconds;

// Whoever flushes rules goes from table to table: look again soon, a few times.
constexpr seconds kQuickCheck{1};
constexpr int kQuickChecks = 5;

// After a sync that was large, give freed memory back to the system.
constexpr size_t kTrimBytes = 1 << 20;

// Periods longer than the maximum interval mean that interval; adding them to a time could overflow.
SyncLoop::Periods bounded(SyncLoop::Periods periods) {
  periods.sync = std::min<Schedule::Duration>(periods.sync, SyncLoop::kMaxInterval);
  return periods;
}

}  // namespace

double milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

SyncLoop::SyncLoop(std::unique_ptr<backend::Backend> backend, Periods periods,
                   std::shared_ptr<metrics::Metrics> metrics, std::function<Time()> clock)
    : backend_(std::move(backend)),
      periods_(bounded(periods)),
      metrics_(std::move(metrics)),
      clock_(std::move(clock)),
      schedule_({periods_.min_sync, periods_.sync, kMaxInterval}, clock_()),
      last_full_(clock_()),
      next_check_(clock_() + periods_.sync) {
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
  if (update) {
    snapshot_ = std::move(update->snapshot);
    dirty_.merge(std::move(update->dirty));
    schedule_.request();
    metrics_->sync_queued(backend_->family());
  }
  if (snapshot_ == nullptr) return clock_() + kMaxInterval;
  if (clock_() >= next_check_) check_for_flush();
  if (schedule_.due(clock_())) sync();
  return std::min(schedule_.next(), next_check_);
}

void SyncLoop::check_for_flush() {
  if (backend_->flushed(quick_checks_ > 0)) {
    klog::verbose(2, "Reloading after iptables flush", {family_field()});
    full_ = true;
    quick_checks_ = kQuickChecks;
    sync();
  }
  const bool quick = quick_checks_ > 0;
  if (quick) --quick_checks_;
  next_check_ =
      clock_() + (quick ? std::min<Schedule::Duration>(kQuickCheck, periods_.sync) : periods_.sync);
}

void SyncLoop::sync() {
  const bool hour_passed = clock_() - last_full_ >= kMaxInterval;
  backend::SyncRequest request{snapshot_, std::exchange(dirty_, {}), full_ || hour_passed};
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
  schedule_.finished(clock_(), report.has_value());
  if (report) {
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
                           .full = request.full,
                           .ok = report.has_value(),
                           .duration = clock_() - start});
  return report;
}

void SyncLoop::succeeded(const backend::SyncReport& report) {
  if (report.full) last_full_ = clock_();
  full_ = false;
  for (const auto& warning : report.warnings)
    klog::warning(warning, {family_field()});
  const klog::Fields fields{family_field(),
                            {"full", report.full},
                            {"chains", report.chains},
                            {"rules", report.rules},
                            {"endpoints", report.endpoints},
                            {"observeMs", milliseconds(report.observe)},
                            {"prepareMs", milliseconds(report.prepare)},
                            {"commitMs", milliseconds(report.commit)}};
  if (std::exchange(failures_, 0) > 0) {
    klog::info("Sync works again", fields);
  } else if (!synced_) {
    klog::info("Synced rules", fields);
  } else {
    klog::verbose(2, "Synced rules", fields);
  }
  synced_ = true;
  if (report.bytes > kTrimBytes) ::malloc_trim(0);
}

void SyncLoop::failed(const base::Error& error) {
  full_ = true;
  ++failures_;
  klog::error("Sync failed", error.text,
              {family_field(), {"retryingTime", periods_.sync}, {"failures", failures_}});
}

klog::Field SyncLoop::family_field() const { return {"ipFamily", net::name(backend_->family())}; }

}  // namespace proxyd
