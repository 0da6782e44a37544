// What the rooms below the daemon have to tell, to be logged by whoever knows how. Never with a secret.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kube {

struct Notice {
  enum class Severity : uint8_t { Info, Warning, Error };
  Severity severity = Severity::Info;
  int verbosity = 0;  // of an Info
  std::string message;
  std::string err;  // may be empty
  std::vector<std::pair<std::string, std::string>> fields{};
};
using Tell = std::function<void(const Notice&)>;

// Trouble that lasts is told when it begins, when it changes, and from time to time.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Patience(Clock::duration between) : between_(between) {}

  // Whether this is to be told, now.
  bool is_over(const std::string& trouble, Clock::time_point now) {
    if (trouble == trouble_ && now - told_ < between_) return false;
    trouble_ = trouble;
    told_ = now;
    return true;
  }

  void calm() { trouble_.clear(); }

 private:
  Clock::duration between_;
  std::string trouble_;
  Clock::time_point told_;
};

}  // namespace kube
