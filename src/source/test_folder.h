// A folder that is gone after the test, and the ways in which people put files into it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace source {

class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "manifests-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    std::filesystem::create_directory(path());
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() { std::filesystem::remove_all(root_); }

  // What is under test; beside it there is room for other things.
  std::string path() const { return root_ + "/m"; }
  std::string path(const std::string& name) const { return path() + "/" + name; }
  std::string beside(const std::string& name) const { return root_ + "/" + name; }

  void write(const std::string& name, std::string_view text) const { put(path(name), text); }
  void remove(const std::string& name) const { std::filesystem::remove_all(path(name)); }

  // As editors save.
  void rename_into_place(const std::string& name, std::string_view text) const {
    put(path("." + name + ".tmp"), text);
    std::filesystem::rename(path("." + name + ".tmp"), path(name));
  }

  // As the kubelet fills a ConfigMap mount: a new folder, and then one rename of the link to it.
  void swap_data(const std::string& version, const std::string& name, std::string_view text) const {
    namespace fs = std::filesystem;
    fs::create_directory(path(version));
    put(path(version + "/" + name), text);
    fs::create_symlink(version, path("..data_tmp"));
    fs::rename(path("..data_tmp"), path("..data"));
    if (!fs::is_symlink(path(name))) fs::create_symlink("..data/" + name, path(name));
  }

  static void put(const std::string& path, std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
  }

 private:
  std::string root_;
};

}  // namespace source
