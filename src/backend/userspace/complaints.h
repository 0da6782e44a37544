// What could not be done, told once for each cause and not at every attempt.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace userspace {

class Complaints {
 public:
  // `who` wanted `what` to be done.
  void raise(const std::string& who, const std::string& what, std::string text,
             std::vector<std::string>& warnings) {
    auto& told = told_[who][what];
    if (told == text) return;
    warnings.push_back(text);
    told = std::move(text);
  }
  // It is done.
  void settle(const std::string& who, const std::string& what) {
    if (const auto found = told_.find(who); found != told_.end()) found->second.erase(what);
  }
  // Nothing of that need be done any more.
  void settle(const std::string& who) { told_.erase(who); }

 private:
  std::map<std::string, std::map<std::string, std::string>> told_;
};

}  // namespace userspace
