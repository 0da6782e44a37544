#include "codec/yaml_write.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/rfc3339.h"
#include "codec/json.h"
#include "codec/yaml_scalar.h"

namespace codec::yaml {
namespace {

// Would a reader take the bare text for something else than this string?
bool bare_is_safe(const std::string& text) {
  if (resolve_plain(text).as_string() == nullptr) return false;
  if (text.front() == ' ' || text.back() == ' ' || text.back() == ':') return false;
  if (std::string_view("#,[]{}&*!|>'\"%@`").find(text.front()) != std::string_view::npos) {
    return false;
  }
  if (text.starts_with("- ") || text == "-" || text.starts_with("? ") || text == "?") return false;
  if (text.starts_with("---") || text.starts_with("...")) return false;
  return text.find(": ") == std::string::npos && text.find(" #") == std::string::npos;
}

bool is_printable(const std::string& text) {
  return std::ranges::none_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

// Bare where possible; in double quotes if it would read as a number, a
// time or a word like `true`; in
// single quotes if it has characters of YAML's own.
void append_text(std::string& out, const std::string& text) {
  const bool typed = resolve_plain(text).as_string() == nullptr || base::parse_rfc3339(text);
  if (typed || !is_printable(text)) return json::append_string(out, text);
  if (bare_is_safe(text)) {
    out += text;
    return;
  }
  out += '\'';
  for (const char c : text)
    out.append(c == '\'' ? 2 : 1, c);
  out += '\'';
}

void append_members(std::string& out, const Value::Object& members, size_t indent);

// What follows a key or a dash: " value" on the same line, or a block on the lines below.
void append_value(std::string& out, const Value& value, size_t indent) {
  const auto* members = value.as_object();
  const auto* elements = value.as_array();
  if (members != nullptr && !members->empty()) {
    out += '\n';
    append_members(out, *members, indent + 2);
  } else if (elements != nullptr && !elements->empty()) {
    out += '\n';
    for (const Value& element : *elements) {
      std::string item;
      append_value(item, element, indent);
      out.append(indent, ' ') += "-";
      // A map starts behind its dash: "- filePattern: a".
      out += item.starts_with('\n') ? " " + item.substr(indent + 3) : item;
    }
  } else {
    out += ' ';
    if (const std::string* text = value.as_string()) {
      append_text(out, *text);
    } else {
      json::append(out, value);
    }
    out += '\n';
  }
}

void append_members(std::string& out, const Value::Object& members, size_t indent) {
  std::vector<const Member*> sorted;
  for (const Member& member : members)
    sorted.push_back(&member);
  std::ranges::sort(sorted, {}, [](const Member* member) { return member->name; });
  for (const Member* member : sorted) {
    out.append(indent, ' ') += member->name + ":";
    append_value(out, member->value, indent);
  }
}

}  // namespace

void append(std::string& out, const Value& document) {
  if (const auto* members = document.as_object()) append_members(out, *members, 0);
}

}  // namespace codec::yaml
