// Structured log lines in klog's text format or as JSON.
//
//   klog::info("Synced rules", {{"family", "IPv4"}, {"services", 12}});
//   I1115 23:19:17.123456    4711 runner.cpp:42] "Synced rules" family="IPv4" services=12
//
// Only daemon, serve and cli log. May be called from any thread; each call writes one whole line.
#pragma once

#include <chrono>
#include <concepts>
#include <initializer_list>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace klog {

// One key and its value; text is quoted in the output, numbers and booleans are not.
struct Field {
  Field(std::string_view name, std::string_view text) : key(name), value(text), quoted(true) {}
  Field(std::string_view name, const std::string& text) : Field(name, std::string_view(text)) {}
  Field(std::string_view name, const char* text) : Field(name, std::string_view(text)) {}
  Field(std::string_view name, bool flag) : key(name), value(flag ? "true" : "false") {}
  Field(std::string_view name, std::integral auto number)
      : key(name), value(std::to_string(number)) {}
  Field(std::string_view name, double number);
  Field(std::string_view name, std::chrono::nanoseconds duration);  // Go's form, quoted

  std::string key;
  std::string value;
  bool quoted = false;
};

using Fields = std::vector<Field>;

enum class Severity : char { Info = 'I', Warning = 'W', Error = 'E', Fatal = 'F' };
enum class Format { Text, Json };

// One entry of --vmodule: files whose name (without .cpp) matches the pattern log at that level.
struct ModuleLevel {
  std::string pattern;
  int verbosity = 0;
};

struct Options {
  Format format = Format::Text;
  int verbosity = 0;
  std::vector<ModuleLevel> vmodule{};
  bool split_stream = false;  // info to stdout, the rest to stderr
};

void configure(const Options& options);

// Changes the verbosity alone, as often as anybody likes.
void set_verbosity(int verbosity);

// Is a line of this verbosity printed, if it comes from that place?
bool enabled(int verbosity, std::source_location where = std::source_location::current());

void info(std::string_view message, const Fields& fields = {},
          std::source_location where = std::source_location::current());
// Printed only at -v=LEVEL and above.
void verbose(int level, std::string_view message, const Fields& fields = {},
             std::source_location where = std::source_location::current());
void warning(std::string_view message, const Fields& fields = {},
             std::source_location where = std::source_location::current());
// `error` stands first among the fields, under the key err.
void error(std::string_view message, std::string_view error, const Fields& fields = {},
           std::source_location where = std::source_location::current());

// The line that the functions above would write, for tests and for other sinks.
struct Line {
  Severity severity = Severity::Info;
  int verbosity = 0;
  std::string_view message;
  Fields fields;
  std::string_view file;  // a path: text lines show its last part, JSON its last two
  unsigned line = 0;
  std::chrono::system_clock::time_point time;
  int pid = 0;
};
std::string format_text(const Line& line);
std::string format_json(const Line& line);

}  // namespace klog
