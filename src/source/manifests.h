// Manifests in a file or a folder as the source of objects, in place of the API server.
//
// A folder is read without its sub-folders: *.yaml, *.yml and *.json in the order of their names,
// hidden ones left out, symbolic links followed. The last definition of an object wins.
//
// Whatever is written into the files, the daemon goes on: a file that breaks keeps its last good
// state, and is told about once. So does everything if the path itself goes away (a mount that is
// replaced): traffic goes on as before. To take all objects away, empty the file or the folder.
//
// Editors take the old file away, or empty it, and then write the new one: a file is believed to be
// gone or empty when it is still so after kBrief.
//
// Lives on the loop thread. Keeps the objects, never the text. Logs nothing: the caller does.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/change.h"
#include "source/file.h"
#include "source/merge.h"

namespace source {

struct Report {
  enum class Severity : uint8_t { Info, Warning, Error };
  Severity severity = Severity::Info;
  std::string file;
  uint32_t line = 0;   // 0 = none
  std::string object;  // "Service default/web", as far as it is known
  std::string field;   // "spec.ports[0].port", or empty
  std::string text;

  // "/etc/m/web.yaml:7: Service default/web: spec.ports[0].port: must be ..."
  std::string str() const;
};

struct LoadReport {
  std::vector<model::Change> changes;
  std::vector<Report> reports;
  // Something is missing, perhaps only for a moment: rescan after this time.
  std::optional<std::chrono::milliseconds> look_again;
};

class Manifests {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr int64_t kMaxFileBytes = int64_t{256} << 20;
  static constexpr std::chrono::milliseconds kBrief{100};

  explicit Manifests(std::string path, int64_t max_file_bytes = kMaxFileBytes)
      : path_(std::move(path)), max_file_bytes_(max_file_bytes) {}

  // Reads everything. The changes are relative to what was handed out, at first to nothing.
  LoadReport load(Clock::time_point now = Clock::now());

  // Reads what changed on the disk since, and only looks at the stamps of the rest. The files in
  // `being_written` are left as they were (Watch knows them).
  LoadReport rescan(const std::set<FileId>& being_written = {},
                    Clock::time_point now = Clock::now());

 private:
  using Since = std::optional<Clock::time_point>;

  struct File {
    Stamp stamp;
    bool in_flux = false;      // read it again, whatever the stamp says
    bool good = false;         // the last text had no error
    bool ever_good = false;    // the objects are the last good state
    bool broken = false;       // told, and "good again" not yet
    bool has_objects = false;  // in merge_
    size_t text_hash = 0;      // of the last text
    Since missing;             // gone or empty, and not believed yet
  };

  // One pass over the files.
  struct Scan {
    const std::set<FileId>& being_written;
    Clock::time_point now;
    LoadReport out = {};
    Merge::Files changed = {};
  };

  void path_trouble(const base::Error& error, Scan& scan);
  void forget_others(const std::vector<std::string>& paths, Scan& scan);
  void forget(const std::string& path, Scan& scan);
  void refresh(const std::string& path, Scan& scan);
  void unreadable(const std::string& path, const Stamp& stamp, const base::Error& error,
                  Scan& scan);
  static void take_text(const std::string& path, File& file, const std::string& text, Scan& scan);
  static void tell_if_mended(const std::string& path, File& file, Scan& scan);

  // Whether what is missing may be back in a moment; `since` is when that was seen first.
  static bool may_be_brief(Since& since, Scan& scan);
  void merge(Scan& scan);
  bool is_missing(const std::string& path) const;

  std::string path_;
  int64_t max_file_bytes_;
  std::string path_trouble_;  // told already
  Since path_missing_;
  std::map<std::string, File> files_;
  Merge merge_;
};

}  // namespace source
