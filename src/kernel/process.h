// Running another program and talking to it through pipes.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kernel {

struct Command {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH
  // Written to its standard input. Each piece is freed once it is written.
  std::vector<std::string> input;
  // Gets its standard output as it comes; if empty, Output::out collects it.
  std::function<void(std::string_view)> on_output;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

struct Output {
  int status = 0;  // exit status, or 128 + signal
  std::string out;
  std::string err;  // at most 64 KiB

  bool ok() const { return status == 0; }
};

// Runs to the end. A program that cannot be found is NotFound ("iptables: not found in PATH"); one
// that takes longer than its timeout is killed. A failing program is not an error of this call.
base::Result<Output> run(Command command);

}  // namespace kernel
