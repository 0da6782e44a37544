#include "serve/debug_pages.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "base/text.h"
#include "log/log.h"

namespace serve {
namespace {

using http::Answer;
using http::Incoming;

Answer html(std::string body) {
  return {.headers = {{"Content-Type", "text/html; charset=utf-8"}}, .body = std::move(body)};
}

constexpr const char* kFlagsPage =
    "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\n"
    "flags:<br>\n<table>\n<tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n"
    "</html>\n";

Answer plain(int status, std::string body) {
  return {
      .status = status,
      .headers = {{"Content-Type", "text/plain"}, {"X-Content-Type-Options", "nosniff"}},
      .body = std::move(body),
  };
}

// Parity: Go reads it twice, first as 32 bits without a sign, then with one.
std::string number_problem(const std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  const bool too_large = digits && base::parse_number<uint32_t>(text);
  return (too_large ? "failed set klog.logging.verbosity " + text + ": strconv.ParseInt: parsing "
                    : std::string("strconv.ParseUint: parsing ")) +
         base::quote(text) + (digits ? ": value out of range" : ": invalid syntax") + "\n";
}

Answer set_verbosity(const Incoming& incoming) {
  if (incoming.method != "PUT") return plain(406, "unsupported http method\n");
  const auto level = base::parse_number<int32_t>(incoming.body);
  if (!level || incoming.body.starts_with('-')) return plain(400, number_problem(incoming.body));
  klog::set_verbosity(*level);
  return plain(200, "successfully set klog.logging.verbosity to " + incoming.body + "\n");
}

Answer to_index() {
  return {.status = 302,
          .headers = {{"Content-Type", "text/html; charset=utf-8"}, {"Location", "/debug/pprof/"}},
          .body = "<a href=\"/debug/pprof/\">Found</a>.\n\n"};
}

constexpr const char* kIndex =
    "<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n/debug/pprof/\n<br>\n"
    "<p>This kube-proxy is written in C++: Go's profiles do not exist. There are:</p>\n<ul>\n"
    "<li><a href='heap'>heap</a>: what malloc holds</li>\n"
    "<li><a href='threads'>threads</a>: what each thread is and waits for</li>\n</ul>\n"
    "<p>For a CPU profile: <code>perf record -g -p PID</code></p>\n</body>\n</html>\n";

// A summary, then the XML of malloc_info(3) with every arena.
std::string heap() {
  const auto info = ::mallinfo2();
  std::string out = "in use: " + std::to_string(info.uordblks + info.hblkhd) +
                    " bytes\nfree: " + std::to_string(info.fordblks) +
                    " bytes\nfrom the system: " + std::to_string(info.arena + info.hblkhd) +
                    " bytes\n\n";
  char* text = nullptr;
  size_t size = 0;
  FILE* stream = ::open_memstream(&text, &size);
  if (stream == nullptr) return out;
  ::malloc_info(0, stream);
  std::fclose(stream);
  out.append(text, size);
  std::free(text);
  return out;
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "R", "S": the field behind the name in parentheses.
std::string state_of(const std::filesystem::path& thread) {
  const std::string stat = first_line(thread / "stat");
  const size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos ? "?" : stat.substr(name_end + 2, 1);
}

std::string threads() {
  std::string out = "thread state name wchan\n";
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const auto& path = thread.path();
    out += path.filename().string() + " " + state_of(path) + " " + first_line(path / "comm") + " " +
           first_line(path / "wchan") + "\n";
  }
  return out;
}

Answer show_profile(const Incoming& incoming) {
  constexpr std::string_view kFolder = "/debug/pprof/";
  const std::string_view name = std::string_view(incoming.path).substr(kFolder.size());
  if (name.empty()) {
    Answer index = html(kIndex);
    index.headers.emplace_back("X-Content-Type-Options", "nosniff");
    return index;
  }
  if (name == "heap") return http::text_answer(200, heap());
  if (name == "threads") return http::text_answer(200, threads());
  if (name == "profile" || name == "trace") {
    return http::text_answer(
        501, "There is no profiler inside this C++ program. On the node:\n  perf record -g -p " +
                 std::to_string(::getpid()) + " -- sleep 30\n");
  }
  return http::text_answer(404, "Unknown profile\n");
}

}  // namespace

Routes debug_routes() {
  const auto flags = [](const Incoming&) { return html(kFlagsPage); };
  return {
      {"/debug/pprof", [](const Incoming&) { return to_index(); }},
      {"/debug/pprof/", &show_profile, Match::Prefix},
      {"/debug/flags/v", &set_verbosity},
      {"/debug/flags", flags},
      {"/debug/flags/", flags, Match::Prefix},
  };
}

}  // namespace serve
