// The two shapes of a log line.
#include <charconv>
#include <ctime>

#include "base/text.h"
#include "log/log.h"

namespace klog {
namespace {

// "Lmmdd hh:mm:ss.uuuuuu PID ", local time, PID right-aligned to 7 columns.
void append_header(std::string& out, const Line& line) {
  const auto since_epoch = line.time.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(since_epoch - seconds).count();
  const std::time_t clock = seconds.count();
  std::tm local{};
  localtime_r(&clock, &local);
  char text[64];
  const int length =
      std::snprintf(text, sizeof text, "%c%02d%02d %02d:%02d:%02d.%06d %7d ",
                    static_cast<char>(line.severity), local.tm_mon + 1, local.tm_mday,
                    local.tm_hour, local.tm_min, local.tm_sec, static_cast<int>(micros), line.pid);
  out.append(text, static_cast<size_t>(length));
}

// The last `parts` components of a path.
std::string_view path_tail(std::string_view path, int parts) {
  size_t from = path.size();
  for (; parts > 0 && from != 0; --parts) {
    const size_t slash = path.rfind('/', from - 1);
    if (slash == std::string_view::npos) return path;
    from = slash;
  }
  return from == path.size() ? path : path.substr(from + 1);
}

// Before: "one\ntwo"   After:  =<
//                        <tab>one
//                        <tab>two
//                       <space>>
void append_block(std::string& out, std::string_view text) {
  out += "=<\n";
  if (text.ends_with('\n')) text.remove_suffix(1);
  for (const std::string_view line : base::split(text, '\n')) {
    out += '\t';
    out += line;
    out += '\n';
  }
  out += " >";
}

void append_text_field(std::string& out, const Field& field) {
  out += ' ';
  out += field.key;
  if (field.value.find('\n') != std::string::npos) {
    append_block(out, field.value);
    return;
  }
  out += '=';
  out += field.quoted ? base::quote(field.value) : field.value;
}

// Rooms above us have a JSON writer; here stands the little that a log line needs.
void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_json_field(std::string& out, const Field& field) {
  out += ',';
  append_json_string(out, field.key);
  out += ':';
  if (field.quoted) {
    append_json_string(out, field.value);
  } else {
    out += field.value;
  }
}

// Unix milliseconds with the microseconds behind the point, as few digits as tell it apart.
void append_timestamp(std::string& out, std::chrono::system_clock::time_point time) {
  const double ms = std::chrono::duration<double, std::milli>(time.time_since_epoch()).count();
  char digits[48];
  const auto end = std::to_chars(digits, digits + sizeof digits, ms, std::chars_format::fixed);
  out.append(digits, end.ptr);
}

bool is_error(const Line& line) {
  return line.severity == Severity::Error || line.severity == Severity::Fatal;
}

}  // namespace

std::string format_text(const Line& line) {
  std::string out;
  append_header(out, line);
  out += path_tail(line.file, 1);
  out += ':';
  base::append_number(out, line.line);
  out += "] ";
  out += base::quote(line.message);
  for (const Field& field : line.fields)
    append_text_field(out, field);
  out += '\n';
  return out;
}

// Parity: the error stands behind the other fields here, unlike in the text format.
std::string format_json(const Line& line) {
  std::string out = "{\"ts\":";
  append_timestamp(out, line.time);
  out += ",\"caller\":";
  append_json_string(out, std::string(path_tail(line.file, 2)) + ":" + std::to_string(line.line));
  out += ",\"msg\":";
  append_json_string(out, line.message);
  if (!is_error(line)) append_json_field(out, Field("v", line.verbosity));
  const bool error_first = is_error(line) && !line.fields.empty() && line.fields[0].key == "err";
  for (size_t i = error_first ? 1 : 0; i < line.fields.size(); ++i) {
    append_json_field(out, line.fields[i]);
  }
  if (error_first) append_json_field(out, line.fields[0]);
  out += "}\n";
  return out;
}

}  // namespace klog
