#include "log/log.h"

#include <fnmatch.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <ctime>

#include "log/duration.h"

namespace klog {
namespace {

// A configuration once installed is never freed: a line may be under way on another thread. The
// few there are stay reachable from each other.
struct Installed {
  Options options;
  const Installed* previous = nullptr;
};

std::atomic<const Installed*>& current() {
  static std::atomic<const Installed*> installed = new Installed;
  return installed;
}

// Of the configuration, until somebody sets another.
std::atomic<int> verbosity_now = 0;

const Options& options() { return current().load(std::memory_order_acquire)->options; }

// "src/daemon/runner.cpp" -> "runner"
std::string module_name(std::string_view file) {
  const size_t slash = file.rfind('/');
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return std::string(file.substr(0, file.rfind('.')));
}

// The first entry that matches counts; vmodule only ever adds lines.
bool module_enabled(const std::vector<ModuleLevel>& levels, int verbosity, std::string_view file) {
  const std::string name = module_name(file);
  for (const ModuleLevel& level : levels) {
    if (fnmatch(level.pattern.c_str(), name.c_str(), 0) == 0) return verbosity <= level.verbosity;
  }
  return false;
}

void write_line(int fd, std::string_view line) {
  // Whole or not at all: a log that cannot be written is no reason to stop proxying.
  while (::write(fd, line.data(), line.size()) < 0 && errno == EINTR) {
  }
}

void emit(Severity severity, int verbosity, std::string_view message, Fields fields,
          const std::source_location& where) {
  const Options& to = options();
  const Line line{.severity = severity,
                  .verbosity = verbosity,
                  .message = message,
                  .fields = std::move(fields),
                  .file = where.file_name(),
                  .line = where.line(),
                  .time = std::chrono::system_clock::now(),
                  .pid = getpid()};
  const bool to_stdout = to.split_stream && severity == Severity::Info;
  write_line(to_stdout ? STDOUT_FILENO : STDERR_FILENO,
             to.format == Format::Json ? format_json(line) : format_text(line));
}

// Go's %v: plain digits unless the exponent is extreme.
std::string number_text(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "+Inf" : "-Inf";
  const double size = std::fabs(number);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e21);
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, number,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  return std::string(digits, end.ptr);
}

}  // namespace

Field::Field(std::string_view name, double number)
    : key(name), value(number_text(number)), quoted(!std::isfinite(number)) {}

Field::Field(std::string_view name, std::chrono::nanoseconds duration)
    : key(name), value(go_duration(duration)), quoted(true) {}

void configure(const Options& wanted) {
  auto* installed = new Installed{wanted, current().load(std::memory_order_acquire)};
  while (!current().compare_exchange_weak(installed->previous, installed)) {
  }
  set_verbosity(wanted.verbosity);
}

void set_verbosity(int verbosity) { verbosity_now.store(verbosity, std::memory_order_relaxed); }

bool enabled(int verbosity, std::source_location where) {
  if (verbosity <= verbosity_now.load(std::memory_order_relaxed)) return true;
  const Options& now = options();
  return !now.vmodule.empty() && module_enabled(now.vmodule, verbosity, where.file_name());
}

void info(std::string_view message, const Fields& fields, std::source_location where) {
  emit(Severity::Info, 0, message, fields, where);
}

void verbose(int level, std::string_view message, const Fields& fields,
             std::source_location where) {
  if (enabled(level, where)) emit(Severity::Info, level, message, fields, where);
}

void warning(std::string_view message, const Fields& fields, std::source_location where) {
  emit(Severity::Warning, 0, message, fields, where);
}

void error(std::string_view message, std::string_view error, const Fields& fields,
           std::source_location where) {
  Fields all;
  if (!error.empty()) all.push_back({"err", error});
  all.insert(all.end(), fields.begin(), fields.end());
  emit(Severity::Error, 0, message, std::move(all), where);
}

}  // namespace klog
