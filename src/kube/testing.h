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
#include "kube/observer.h"

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

// One word or two for each thing that was observed.
struct Observed final : Observer {
  std::vector<std::string> all;
  std::chrono::nanoseconds waited{};

  void attempted(std::string_view method, std::string_view code, bool again) override {
    all.push_back(std::string(method) + " " + std::string(code) + (again ? " again" : ""));
  }
  void finished(const Finished& request) override {
    const auto received = request.received_bytes;
    all.push_back("finished " + std::string(request.method) + " " +
                  std::to_string(request.sent_bytes) + " " +
                  (received ? std::to_string(*received) : "none"));
  }
  void throttled(std::string_view, std::chrono::nanoseconds wait) override { waited += wait; }
  void plugin_called(int exit_code, std::string_view status) override {
    all.push_back("plugin " + std::to_string(exit_code) + " " + std::string(status));
  }
  void certificate_given(std::chrono::sys_seconds expires) override {
    all.push_back("certificate until " + std::to_string(expires.time_since_epoch().count()));
  }
  void certificate_replaced(std::chrono::seconds age) override {
    all.push_back("certificate replaced after " + std::to_string(age.count()));
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
