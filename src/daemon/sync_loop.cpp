#include "daemon/sync_loop.h"

#include <malloc.h>

#include <algorithm>

#include "log/log.h"

namespace proxyd {
namespace {

using std::chrono::seconds;

// Whoever flushes rules goes from table to table: look again soon, a few times.
constexpr seconds kQuickCheck{1};
constexpr int kQuickChecks = 5;

// After a sync that was large, give freed memory back to the system.
constexpr size_t kTrimBytes = 1 << 20;

double ms(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

SyncLoop::SyncLoop(std::vector<std::unique_ptr<backend::Backend>> backends, Periods periods,
                   event::Mailbox<Update>& mailbox)
    : periods_(periods), mailbox_(mailbox) {
  const Time now = Schedule::Time::clock::now();
  for (auto& backend : backends) {
    const Schedule::Periods intervals{periods.min_sync, periods.sync, kMaxInterval};
    families_.push_back(Family{.backend = std::move(backend),
                               .schedule = Schedule(intervals, now),
                               .dirty = {},
                               .last_full = now,
                               .next_check = now + periods.sync});
  }
}

void SyncLoop::run() {
  Time next = Time::clock::now();
  while (!mailbox_.closed()) {
    auto update = mailbox_.take_until(next);
    if (mailbox_.closed()) return;
    next = turn(Time::clock::now(), std::move(update));
  }
}

SyncLoop::Time SyncLoop::turn(Time now, std::optional<Update> update) {
  if (update) take_in(std::move(*update));
  Time next = now + kMaxInterval;
  if (snapshot_ == nullptr) return next;
  for (Family& family : families_) {
    if (now >= family.next_check) check_for_flush(family, now);
    if (family.schedule.due(now)) sync(family);
    next = std::min({next, family.schedule.next(), family.next_check});
  }
  return next;
}

void SyncLoop::take_in(Update update) {
  snapshot_ = std::move(update.snapshot);
  for (Family& family : families_) {
    family.dirty.merge(update.dirty);
    family.schedule.request();
  }
}

void SyncLoop::check_for_flush(Family& family, Time now) {
  if (family.backend->flushed()) {
    klog::verbose(2, "Reloading after iptables flush",
                  {{"ipFamily", net::name(family.backend->family())}});
    family.full = true;
    family.quick_checks = kQuickChecks;
    sync(family);
  }
  const bool quick = family.quick_checks > 0;
  if (quick) --family.quick_checks;
  family.next_check =
      now + (quick ? std::min<Schedule::Duration>(kQuickCheck, periods_.sync) : periods_.sync);
}

void SyncLoop::sync(Family& family) {
  const Time start = Time::clock::now();
  const bool hour_passed =
      start - family.last_full > kMaxInterval && family.backend->wants_hourly_full_sync();
  backend::SyncRequest request{snapshot_, std::exchange(family.dirty, {}),
                               family.full || hour_passed};
  family.schedule.started();
  if (!family.synced) {
    klog::info("Starting the first sync", {{"ipFamily", net::name(family.backend->family())},
                                           {"services", snapshot_->services.size()}});
  }
  auto report = family.backend->sync(request);
  if (!report && !request.full) {
    // The kernel is not as we left it; comparing everything with it most often mends that.
    klog::error("Partial sync failed, trying a full one", report.error().text,
                {{"ipFamily", net::name(family.backend->family())}});
    request.full = true;
    report = family.backend->sync(request);
  }
  family.schedule.finished(Time::clock::now(), report.has_value());
  if (report) {
    succeeded(family, *report);
  } else {
    failed(family, report.error());
  }
}

void SyncLoop::succeeded(Family& family, const backend::SyncReport& report) {
  if (report.full) family.last_full = Time::clock::now();
  family.full = false;
  const klog::Fields fields{{"ipFamily", net::name(family.backend->family())},
                            {"full", report.full},
                            {"chains", report.chains},
                            {"rules", report.rules},
                            {"endpoints", report.endpoints},
                            {"observeMs", ms(report.observe)},
                            {"prepareMs", ms(report.prepare)},
                            {"commitMs", ms(report.commit)}};
  for (const auto& warning : report.warnings)
    klog::warning(warning);
  if (!std::exchange(family.synced, true)) {
    klog::info("Synced rules", fields);
  } else if (family.failures > 0) {
    klog::info("Sync works again", fields);
  } else {
    klog::verbose(2, "Synced rules", fields);
  }
  family.failures = 0;
  if (report.bytes > kTrimBytes) ::malloc_trim(0);
}

void SyncLoop::failed(Family& family, const base::Error& error) {
  family.full = true;
  ++family.failures;
  klog::error("Sync failed", error.text,
              {{"ipFamily", net::name(family.backend->family())},
               {"retryingTime", std::min<Schedule::Duration>(periods_.sync, kMaxInterval)},
               {"failures", family.failures}});
}

}  // namespace proxyd
