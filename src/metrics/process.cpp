#include "metrics/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/text.h"

namespace metrics {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

class Families {
 public:
  void add(MetricType type, std::string name, std::string help, double value) {
    MetricFamily family{std::move(name), std::move(help), type, {}};
    auto& metric = family.metric.emplace_back();
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    families_.push_back(std::move(family));
  }
  std::vector<MetricFamily> take() { return std::move(families_); }

 private:
  std::vector<MetricFamily> families_;
};

// Files in /proc have no size: they are read to their end. Empty if there is none.
std::string read_proc(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> found;
  for (const auto word : base::split(line, ' '))
    if (!word.empty()) found.push_back(base::trim(word));
  return found;
}

// When the machine was started, in seconds.
std::optional<double> boot_time(const std::string& proc) {
  const std::string text = read_proc(proc + "/stat");
  for (const auto line : base::split(text, '\n')) {
    if (!line.starts_with("btime ")) continue;
    if (const auto seconds = base::parse_number<int64_t>(line.substr(6)))
      return static_cast<double>(*seconds);
  }
  return std::nullopt;
}

void add_stat(Families& families, const std::string& proc) {
  const std::string text = read_proc(proc + "/self/stat");
  // "4711 (name of any kind) S 1 ...": fields are counted from 1 in proc(5); the state is the third.
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) return;
  const auto fields = words(std::string_view(text).substr(name_end + 2));
  if (fields.size() < 22) return;
  const auto field = [&](size_t number) {
    return static_cast<double>(base::parse_number<uint64_t>(fields[number - 3]).value_or(0));
  };
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  families.add(MetricType::Counter, "process_cpu_seconds_total",
               "Total user and system CPU time spent in seconds.", (field(14) + field(15)) / ticks);
  if (const auto boot = boot_time(proc)) {
    families.add(MetricType::Gauge, "process_start_time_seconds",
                 "Start time of the process since unix epoch in seconds.",
                 *boot + field(22) / ticks);
  }
  families.add(MetricType::Gauge, "process_virtual_memory_bytes", "Virtual memory size in bytes.",
               field(23));
  families.add(MetricType::Gauge, "process_resident_memory_bytes", "Resident memory size in bytes.",
               field(24) * static_cast<double>(::sysconf(_SC_PAGESIZE)));
}

void add_descriptors(Families& families, const std::string& proc) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(proc + "/self/fd", error);
  if (error) return;
  const auto count = std::distance(begin(entries), end(entries));
  // One of them is the folder that we are reading.
  families.add(MetricType::Gauge, "process_open_fds", "Number of open file descriptors.",
               static_cast<double>(count - 1));
}

void add_limits(Families& families) {
  // No limit is the largest number, here as in Go's client.
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    families.add(MetricType::Gauge, "process_max_fds", "Maximum number of open file descriptors.",
                 static_cast<double>(limit.rlim_cur));
  }
  if (::getrlimit(RLIMIT_AS, &limit) == 0) {
    families.add(MetricType::Gauge, "process_virtual_memory_max_bytes",
                 "Maximum amount of virtual memory available in bytes.",
                 static_cast<double>(limit.rlim_cur));
  }
}

// Two lines "IpExt: ...", first the names, then the values.
void add_network(Families& families, const std::string& proc) {
  const std::string text = read_proc(proc + "/self/net/netstat");
  std::vector<std::string_view> names;
  std::vector<std::string_view> values;
  for (const auto line : base::split(text, '\n')) {
    if (line.starts_with("IpExt: ")) (names.empty() ? names : values) = words(line);
  }
  for (size_t i = 0; i < names.size() && i < values.size(); ++i) {
    const auto bytes = base::parse_number<uint64_t>(values[i]);
    if (!bytes) continue;
    if (names[i] == "InOctets") {
      families.add(MetricType::Counter, "process_network_receive_bytes_total",
                   "Number of bytes received by the process over the network.",
                   static_cast<double>(*bytes));
    } else if (names[i] == "OutOctets") {
      families.add(MetricType::Counter, "process_network_transmit_bytes_total",
                   "Number of bytes sent by the process over the network.",
                   static_cast<double>(*bytes));
    }
  }
}

}  // namespace

std::vector<MetricFamily> process_families(const std::string& proc) {
  Families families;
  add_stat(families, proc);
  add_descriptors(families, proc);
  add_limits(families);
  add_network(families, proc);
  return families.take();
}

}  // namespace metrics
