// Running another program and talking to it through pipes.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

  // Added to our own environment, in place of what it has of that name.
  std::vector<std::pair<std::string, std::string>> environment;
  bool share_input = false;   // its standard input is ours (a terminal), `input` is not used
  bool share_errors = false;  // its standard error is ours, Output::err stays empty
  // In a process group of its own, so that what it has started is killed along with it. Such a group
  // cannot read from a terminal.
  bool own_group = false;
  // A descriptor; the program is killed as soon as there is something to read from it.
  int stop = -1;
};

struct Output {
  int status = 0;  // exit status, or 128 + signal
  std::string out;
  std::string err;  // at most 64 KiB

  bool ok() const { return status == 0; }
};

// Runs to the end. A program that cannot be found is NotFound ("iptables: not found in PATH"); one
// that takes longer than its timeout is killed, as is one that is stopped (Busy). A failing program is not an error of this call.
base::Result<Output> run(Command command);

}  // namespace kernel
