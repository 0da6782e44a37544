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

LoadReport Manifests::load() {
  for (auto& [path, file] : files_)
    file.in_flux = true;
  return rescan();
}

LoadReport Manifests::rescan(const std::set<FileId>& being_written) {
  LoadReport out;
  const auto paths = list_manifests(path_);
  if (!paths) {
    if (path_trouble_ != paths.error().text) {
      path_trouble_ = paths.error().text;
      out.reports.push_back(plain_report(
          Severity::Error, path_,
          path_trouble_ + (files_.empty() ? "" : "; everything stays as it was until it can")));
    }
    return out;
  }
  if (!std::exchange(path_trouble_, {}).empty()) {
    out.reports.push_back(plain_report(Severity::Info, path_, "good again"));
  }
  bool changed = forget_others(*paths);
  for (const auto& path : *paths) {
    changed = refresh(path, being_written, out.reports) || changed;
  }
  if (changed) merge(out);
  return out;
}

bool Manifests::forget_others(const std::vector<std::string>& paths) {
  return std::erase_if(files_, [&](const auto& entry) {
           return !std::ranges::binary_search(paths, entry.first);
         }) > 0;
}

bool Manifests::refresh(const std::string& path, const std::set<FileId>& being_written,
                        std::vector<Report>& reports) {
  const Stamp stamp = stamp_of(path);
  const auto known = files_.find(path);
  if (known != files_.end() && known->second.stamp == stamp && !known->second.in_flux) return false;
  if (being_written.contains(stamp.id)) return false;

  File& file = files_[path];
  file.contents.name = path;
  auto read = read_file(path, max_file_bytes_);
  if (!read) {
    file.stamp = stamp;
    file.in_flux = false;
    unreadable(file, read.error().text, reports);
    return false;
  }
  file.stamp = read->stamp;
  file.in_flux = read->torn || read->fresh;
  return !read->torn && take_text(file, read->text, reports);
}

void Manifests::unreadable(File& file, std::string text, std::vector<Report>& reports) {
  file.broken = true;
  if (!file.contents.objects.empty()) text += "; its objects stay as they were";
  reports.push_back(plain_report(Severity::Error, file.contents.name, std::move(text)));
}

void Manifests::tell_if_mended(File& file, std::vector<Report>& reports) {
  if (!std::exchange(file.broken, !file.good) || file.broken) return;
  reports.push_back(plain_report(Severity::Info, file.contents.name, "good again"));
}

bool Manifests::take_text(File& file, const std::string& text, std::vector<Report>& reports) {
  const size_t hash = std::hash<std::string_view>()(text) | 1;
  if (hash == file.text_hash) {
    tell_if_mended(file, reports);
    return false;
  }
  file.text_hash = hash;
  Reading reading = read_documents(file.contents.name, text, reports);
  file.good = reading.good;
  tell_if_mended(file, reports);
  if (!reading.good && file.ever_good) {
    reports.push_back(plain_report(Severity::Error, file.contents.name,
                                   "keeps its last good state until it is mended"));
    return false;
  }
  file.ever_good = reading.good;
  file.contents.objects = std::move(reading.decoded.objects);
  return true;
}

void Manifests::merge(LoadReport& out) {
  std::vector<FileObjects*> all;
  all.reserve(files_.size());
  for (auto& [path, file] : files_)
    all.push_back(&file.contents);
  auto outcome = merge_.update(all);
  out.changes = std::move(outcome.changes);
  for (auto& duplicate : outcome.duplicates) {
    out.reports.push_back({.severity = Severity::Warning,
                           .file = std::move(duplicate.loser_file),
                           .line = duplicate.loser_line,
                           .object = std::move(duplicate.object),
                           .field = {},
                           .text = "is defined again in " + duplicate.winner_file + ":" +
                                   std::to_string(duplicate.winner_line) +
                                   ", which is the one that counts"});
  }
}

}  // namespace source
