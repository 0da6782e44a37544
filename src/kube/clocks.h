// The two kinds of time that credentials need. Tests put their own in.
#pragma once

#include <chrono>
#include <functional>

namespace kube {

struct Clocks {
  // For "look again after a minute": nobody sets it.
  std::function<std::chrono::steady_clock::time_point()> steady = &std::chrono::steady_clock::now;
  // For "good until": the time that the server and we agree on.
  std::function<std::chrono::system_clock::time_point()> wall = &std::chrono::system_clock::now;
};

}  // namespace kube
