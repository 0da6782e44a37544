// Manifests in a file or a folder as the source of objects, in place of the API server.
//
// A folder is read without its sub-folders: *.yaml, *.yml and *.json in the order of their names,
// hidden ones left out, symbolic links followed. The last definition of an object wins.
//
// Whatever is written into the files, the daemon goes on: a file that breaks keeps its last good
// state, and is told about once. So does everything if the path itself goes away (a mount that is
// replaced): traffic goes on as before. To take all objects away, empty the file or the folder.
//
// Lives on the loop thread. Keeps the objects, never the text. Logs nothing: the caller does.
#pragma once

#include <cstdint>
#include <map>
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
};

class Manifests {
 public:
  static constexpr int64_t kMaxFileBytes = int64_t{256} << 20;

  explicit Manifests(std::string path, int64_t max_file_bytes = kMaxFileBytes)
      : path_(std::move(path)), max_file_bytes_(max_file_bytes) {}

  // Reads everything. The changes are relative to what was handed out, at first to nothing.
  LoadReport load();

  // Reads what changed on the disk since; the files in `being_written` are left as they were
  // (Watch knows them).
  LoadReport rescan(const std::set<FileId>& being_written = {});

 private:
  struct File {
    Stamp stamp;
    bool in_flux = false;    // read it again, whatever the stamp says
    size_t text_hash = 0;    // of the last text
    bool good = false;       // that text had no error
    bool ever_good = false;  // `contents` is the last good state
    bool broken = false;     // told, and "good again" not yet
    FileObjects contents;
  };

  // Each returns whether the objects may differ.
  bool refresh(const std::string& path, const std::set<FileId>& being_written,
               std::vector<Report>& reports);
  bool forget_others(const std::vector<std::string>& paths);
  static bool take_text(File& file, const std::string& text, std::vector<Report>& reports);

  static void unreadable(File& file, std::string text, std::vector<Report>& reports);
  static void tell_if_mended(File& file, std::vector<Report>& reports);
  void merge(LoadReport& out);

  std::string path_;
  int64_t max_file_bytes_;
  std::string path_trouble_;  // told already
  std::map<std::string, File> files_;
  Merge merge_;
};

}  // namespace source
