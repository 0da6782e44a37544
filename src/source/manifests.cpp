#include "source/manifests.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/text.h"
#include "codec/document.h"
#include "source/decode.h"

namespace source {

namespace {

using Severity = Report::Severity;

Report plain_report(Severity severity, const std::string& file, std::string text) {
  return {.severity = severity, .file = file, .object = {}, .field = {}, .text = std::move(text)};
}

// "line 3, column 7: did not find ..." -> line 3 and the rest.
Report syntax_report(const std::string& file, std::string_view text) {
  constexpr std::string_view kLine = "line ";
  Report report = plain_report(Severity::Error, file, std::string(text));
  if (!text.starts_with(kLine)) return report;
  const size_t end = text.find_first_not_of("0123456789", kLine.size());
  const size_t rest = text.find(": ");
  if (end == std::string_view::npos || rest == std::string_view::npos) return report;
  report.line =
      base::parse_number<uint32_t>(text.substr(kLine.size(), end - kLine.size())).value_or(0);
  report.text = text.substr(rest + 2);
  return report;
}

struct Reading {
  Decoded decoded;
  bool good = true;
};

// Decodes each document as it comes, so that only one of them is in memory.
Reading read_documents(const std::string& file, const std::string& text,
                       std::vector<Report>& reports) {
  Reading out;
  const auto end = codec::parse_stream(text, [&](const codec::Value& document) -> base::Result<> {
    decode(document, out.decoded);
    return {};
  });
  for (Problem& problem : out.decoded.problems) {
    out.good = out.good && !problem.fatal;
    reports.push_back({problem.fatal ? Severity::Error : Severity::Warning, file, problem.at.line,
                       std::move(problem.object), std::move(problem.field),
                       std::move(problem.text)});
  }
  if (!end) {
    out.good = false;
    reports.push_back(syntax_report(file, end.error().text));
  }
  if (!out.decoded.skipped_kinds.empty()) {
    reports.push_back(plain_report(Severity::Info, file,
                                   "skipping what a service proxy does not use: " +
                                       base::join(out.decoded.skipped_kinds, ", ")));
  }
  return out;
}

}  // namespace

std::string Report::str() const {
  std::string out = file;
  if (line != 0) {
    out += ':';
    base::append_number(out, line);
  }
  for (const std::string* part : {&object, &field, &text}) {
    if (!part->empty()) out += ": " + *part;
  }
  return out;
}

LoadReport Manifests::load(Clock::time_point now) {
  for (auto& [path, file] : files_)
    file.in_flux = true;
  return rescan({}, now);
}

LoadReport Manifests::rescan(const std::set<FileId>& being_written, Clock::time_point now) {
  Scan scan{being_written, now};
  const auto paths = list_manifests(path_);
  if (!paths) {
    path_trouble(paths.error(), scan);
    return std::move(scan.out);
  }
  path_missing_.reset();
  if (!std::exchange(path_trouble_, {}).empty()) {
    scan.out.reports.push_back(plain_report(Severity::Info, path_, "good again"));
  }
  forget_others(*paths, scan);
  for (const auto& path : *paths)
    refresh(path, scan);
  if (!scan.changed.empty()) merge(scan);
  return std::move(scan.out);
}

void Manifests::path_trouble(const base::Error& error, Scan& scan) {
  if (path_trouble_ == error.text) return;
  if (error.code == base::ErrorCode::NotFound && !files_.empty() &&
      may_be_brief(path_missing_, scan)) {
    return;
  }
  path_trouble_ = error.text;
  scan.out.reports.push_back(plain_report(
      Severity::Error, path_,
      path_trouble_ + (files_.empty() ? "" : "; everything stays as it was until it can")));
}

bool Manifests::may_be_brief(Since& since, Scan& scan) {
  if (!since) since = scan.now;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*since + kBrief - scan.now);
  if (left.count() <= 0) return false;
  auto& look_again = scan.out.look_again;
  look_again = std::min(left, look_again.value_or(left));
  return true;
}

void Manifests::forget_others(const std::vector<std::string>& paths, Scan& scan) {
  std::vector<std::string> gone;
  for (auto& [path, file] : files_) {
    if (std::ranges::binary_search(paths, path)) continue;
    if (!file.has_objects || !may_be_brief(file.missing, scan)) gone.push_back(path);
  }
  for (const auto& path : gone)
    forget(path, scan);
}

void Manifests::forget(const std::string& path, Scan& scan) {
  if (files_[path].has_objects) scan.changed.try_emplace(path);
  files_.erase(path);
}

void Manifests::refresh(const std::string& path, Scan& scan) {
  const Stamp stamp = stamp_of(path);
  File& file = files_[path];
  const bool has_text = stamp.error == 0 && stamp.size != 0;
  if (has_text) file.missing.reset();
  if (file.stamp == stamp && !file.in_flux) return;
  const bool emptied = stamp.error == 0 && !has_text && file.has_objects;
  if (emptied && may_be_brief(file.missing, scan)) return;
  if (scan.being_written.contains(stamp.id)) return;

  auto read = read_file(path, max_file_bytes_);
  if (!read) return unreadable(path, stamp, read.error(), scan);
  file.missing.reset();
  file.stamp = read->stamp;
  file.in_flux = read->torn || read->fresh;
  if (!read->torn) take_text(path, file, read->text, scan);
}

void Manifests::unreadable(const std::string& path, const Stamp& stamp, const base::Error& error,
                           Scan& scan) {
  File& file = files_[path];
  if (error.code == base::ErrorCode::NotFound) {
    if (file.has_objects && may_be_brief(file.missing, scan)) return;
    if (!is_link(path)) return forget(path, scan);  // removed since the folder was listed
  }
  file.missing.reset();
  const bool told = file.stamp == stamp && file.broken;
  file.stamp = stamp;
  // Out of descriptors or memory: nothing about the file will change when that is over.
  file.in_flux = error.code == base::ErrorCode::System;
  file.broken = true;
  if (told) return;
  std::string text = error.text;
  if (file.has_objects) text += "; its objects stay as they were";
  scan.out.reports.push_back(plain_report(Severity::Error, path, std::move(text)));
}

void Manifests::tell_if_mended(const std::string& path, File& file, Scan& scan) {
  if (!std::exchange(file.broken, !file.good) || file.broken) return;
  scan.out.reports.push_back(plain_report(Severity::Info, path, "good again"));
}

void Manifests::take_text(const std::string& path, File& file, const std::string& text,
                          Scan& scan) {
  const size_t hash = std::hash<std::string_view>()(text) | 1;
  if (hash == file.text_hash) return tell_if_mended(path, file, scan);
  file.text_hash = hash;
  Reading reading = read_documents(path, text, scan.out.reports);
  file.good = reading.good;
  tell_if_mended(path, file, scan);
  if (!reading.good && file.ever_good) {
    scan.out.reports.push_back(
        plain_report(Severity::Error, path, "keeps its last good state until it is mended"));
    return;
  }
  file.ever_good = reading.good;
  file.has_objects = !reading.decoded.objects.empty();
  scan.changed[path] = std::move(reading.decoded.objects);
}

void Manifests::merge(Scan& scan) {
  auto outcome = merge_.update(std::move(scan.changed));
  scan.out.changes = std::move(outcome.changes);
  for (auto& duplicate : outcome.duplicates) {
    // Most likely it is on its way from one file to the other.
    if (is_missing(duplicate.loser_file) || is_missing(duplicate.winner_file)) continue;
    scan.out.reports.push_back({.severity = Severity::Warning,
                                .file = std::move(duplicate.loser_file),
                                .line = duplicate.loser_line,
                                .object = std::move(duplicate.object),
                                .field = {},
                                .text = "is defined again in " + duplicate.winner_file + ":" +
                                        std::to_string(duplicate.winner_line) +
                                        ", which is the one that counts"});
  }
}

bool Manifests::is_missing(const std::string& path) const {
  const auto found = files_.find(path);
  return found != files_.end() && found->second.missing.has_value();
}

}  // namespace source
