// For the tests of this room: files in a folder that goes away, time that stands still, and everything
// that was told.
#pragma once

#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kube/clocks.h"
#include "kube/notice.h"

namespace kube {

class TestFolder {
 public:
  TestFolder() {
    std::string name = std::filesystem::temp_directory_path() / "kube-test-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path(const std::string& name) const { return path_ / name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return path(name);
  }
  std::string write_script(const std::string& name, const std::string& text) const {
    write(name, "#!/bin/sh\n" + text);
    std::filesystem::permissions(path_ / name, std::filesystem::perms::owner_all);
    return path(name);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void remove(const std::string& name) const { std::filesystem::remove(path_ / name); }

 private:
  std::filesystem::path path_;
};

struct TestTime {
  std::chrono::steady_clock::time_point steady{std::chrono::hours(1)};
  std::chrono::system_clock::time_point wall = std::chrono::sys_days(std::chrono::year_month_day{
      std::chrono::year(2026), std::chrono::month(1), std::chrono::day(1)});

  void pass(std::chrono::nanoseconds time) {
    steady += time;
    wall += time;
  }
  // REQUIRES: this outlives them.
  Clocks clocks() {
    return {.steady = [this] { return steady; }, .wall = [this] { return wall; }};
  }
};

struct Told {
  std::vector<Notice> notices;

  // REQUIRES: this outlives it.
  Tell tell() {
    return [this](const Notice& notice) { notices.push_back(notice); };
  }
  // "message: err" of each, one per line. Fields are left to those who care.
  std::string text() const {
    std::string out;
    for (const Notice& notice : notices)
      out += notice.message + (notice.err.empty() ? "" : ": " + notice.err) + "\n";
    return out;
  }
  // And forgets.
  std::string take() {
    std::string out = text();
    notices.clear();
    return out;
  }
};

}  // namespace kube
