#include "serve/statusz.h"

#include <time.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace serve {
namespace {

using codec::Value;

constexpr const char* kGoVersion = "none (C++)";

std::string format_time(std::chrono::system_clock::time_point time, const char* format) {
  const time_t seconds = std::chrono::system_clock::to_time_t(time);
  tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[64];
  return {text, ::strftime(text, sizeof text, format, &parts)};
}

// "0 hr 00 min 26 sec"
std::string format_uptime(std::chrono::seconds up) {
  const std::chrono::hh_mm_ss parts(up);
  char text[64];
  const int size = std::snprintf(text, sizeof text, "%lld hr %02lld min %02lld sec",
                                 static_cast<long long>(parts.hours().count()),
                                 static_cast<long long>(parts.minutes().count()),
                                 static_cast<long long>(parts.seconds().count()));
  return {text, static_cast<size_t>(size)};
}

// "v1.36.4" -> "1.36"
std::string minor_version(const std::string& binary) {
  return binary.substr(0, binary.find('.', binary.find('.') + 1));
}

}  // namespace

ZPage statusz(const StatusFacts& facts) {
  const auto up = std::max(std::chrono::floor<std::chrono::seconds>(facts.now - facts.started),
                           std::chrono::seconds(0));
  const std::string binary =
      facts.version.starts_with('v') ? facts.version.substr(1) : facts.version;
  const std::string emulated = minor_version(binary);
  ZPage page{.name = "statusz", .kind = "Statusz"};
  page.text = "\nStarted: " + format_time(facts.started, "%a %b %e %H:%M:%S UTC %Y") +
              "\nUp: " + format_uptime(up) + "\nGo version: " + kGoVersion +
              "\nBinary version: " + binary + "\nEmulation version: " + emulated +
              "\nPaths: " + base::join(facts.paths, " ") + "\n";
  Value::Array paths;
  for (const auto& path : facts.paths)
    paths.emplace_back(path);
  const auto started = format_time(facts.started, "%Y-%m-%dT%H:%M:%SZ");
  page.fields = {{"startTime", {}, Value(started)},
                 {"uptimeSeconds", {}, Value(int64_t{up.count()})},
                 {"goVersion", {}, Value(std::string(kGoVersion))},
                 {"binaryVersion", {}, Value(binary)},
                 {"emulationVersion", {}, Value(emulated)},
                 {"paths", {}, Value(std::move(paths))}};
  return page;
}

}  // namespace serve
