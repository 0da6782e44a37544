// The command line: arguments separated by newlines.
#include <cstdint>
#include <string>
#include <vector>

#include "base/text.h"
#include "config/options.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> args;
  for (const auto arg : base::split(text, '\n')) {
    if (arg.find("--config") != std::string_view::npos) return 0;  // would read files
    args.emplace_back(arg);
  }
  (void)config::parse_command_line(args);
  return 0;
}
