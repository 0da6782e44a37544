#include "daemon/manifest_source.h"

#include <utility>

#include "daemon/timing.h"
#include "log/log.h"

namespace proxyd {
namespace {

// inotify is a hint: now and then the folder is looked through anyway.
constexpr std::chrono::seconds kRescan{30};

void tell(const source::Report& report) {
  switch (report.severity) {
    case source::Report::Severity::Info:
      klog::info(report.str());
      break;
    case source::Report::Severity::Warning:
      klog::warning(report.str());
      break;
    case source::Report::Severity::Error:
      klog::error("Manifest is broken", report.str());
      break;
  }
}

}  // namespace

ManifestSource::ManifestSource(Loop& loop, const std::string& path, Intake& intake)
    : loop_(loop),
      path_(path),
      intake_(intake),
      manifests_(path),
      timer_(loop.io()),
      soon_(loop.io()),
      events_(loop, [this] {
        if (watch_->drain()) refresh();
        tell_trouble();
      }) {}

base::Result<> ManifestSource::find_node() {
  auto loaded = manifests_.load();
  for (const auto& report : loaded.reports)
    tell(report);
  intake_.take(std::move(loaded.changes));
  klog::info("Read the manifests", {{"services", intake_.snapshot()->services.size()}});
  return {};
}

void ManifestSource::start() {
  intake_.complete();
  watch();
  rescan_later();
}

void ManifestSource::watch() {
  auto watch = source::Watch::open(path_);
  if (!watch) {
    klog::error("Cannot watch the manifests, looking every 30 s instead, ignoring",
                watch.error().text);
    return;
  }
  watch_.emplace(std::move(*watch));
  if (const auto watched = events_.watch(watch_->fd()); !watched) {
    return loop_.end(watched.error().text);
  }
  // Between the first reading and this watch something may have changed.
  refresh();
}

// Once for each: the watch may have run out of what the kernel allows.
void ManifestSource::tell_trouble() {
  if (watch_->trouble() == trouble_) return;
  trouble_ = watch_->trouble();
  if (!trouble_.empty())
    klog::warning("Changes may be seen late, up to 30 s, ignoring", {{"err", trouble_}});
}

void ManifestSource::rescan_later() {
  timer_.expires_after(kRescan);
  timer_.async_wait([this](const auto& error) {
    if (error) return;
    refresh();
    rescan_later();
  });
}

void ManifestSource::look_again_after(std::chrono::milliseconds time) {
  soon_.expires_after(time);
  soon_.async_wait([this](const auto& error) {
    if (!error) refresh();
  });
}

void ManifestSource::refresh() {
  // Which files are being written must be known up to now, whoever asked for this look.
  if (watch_) watch_->drain();
  const auto start = std::chrono::steady_clock::now();
  auto report = watch_ ? manifests_.rescan(watch_->being_written()) : manifests_.rescan();
  for (const auto& one : report.reports)
    tell(one);
  if (report.look_again) look_again_after(*report.look_again);
  if (report.changes.empty()) return;
  const auto read = std::chrono::steady_clock::now();
  const size_t services = intake_.take(std::move(report.changes));
  klog::verbose(2, "Manifests changed",
                {{"services", services},
                 {"readMs", milliseconds(read - start)},
                 {"foldMs", milliseconds(std::chrono::steady_clock::now() - read)}});
}

}  // namespace proxyd
