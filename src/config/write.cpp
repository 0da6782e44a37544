// The configuration as text: YAML for --write-config-to, a Value for whoever writes JSON.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "codec/json.h"
#include "codec/value.h"
#include "codec/yaml_scalar.h"
#include "config/go_duration.h"
#include "config/go_value.h"
#include "config/options.h"
#include "config/schema.h"

namespace config {
namespace {

using codec::Member;
using codec::Value;

Value to_value(bool value) { return Value(value); }
Value to_value(int32_t value) { return Value(int64_t{value}); }
Value to_value(uint32_t value) { return Value(int64_t{value}); }
Value to_value(const std::string& value) { return Value(value); }
Value to_value(Duration value) { return Value(format_go_duration(value)); }
Value to_value(const file::FlexibleDuration& value) { return to_value(value.value); }
Value to_value(const file::Quantity& value) { return Value(value.text); }

Value to_value(float value) {
  constexpr float kExact = 1e9F;
  if (std::trunc(value) == value && std::fabs(value) < kExact) {
    return Value(static_cast<int64_t>(value));
  }
  // By way of its shortest text: 0.1F is 0.1, not 0.10000000149.
  return Value(std::stod(format_go_float32(value)));
}

Value to_value(const std::map<std::string, bool>& map) {
  Value::Object members;
  for (const auto& [name, value] : map)
    members.push_back({name, {}, Value(value)});
  return Value(std::move(members));
}

template <file::Described T>
Value to_value(const T& described);

template <typename T>
Value to_value(const std::vector<T>& list) {
  Value::Array elements;
  for (const T& element : list)
    elements.push_back(to_value(element));
  return Value(std::move(elements));
}

template <typename T>
Value to_value(const std::optional<T>& value) {
  return value ? to_value(*value) : Value();
}

bool is_empty(const Value& value) {
  if (const bool* flag = value.as_bool()) return !*flag;
  if (const auto* list = value.as_array()) return list->empty();
  if (const auto* object = value.as_object()) return object->empty();
  return false;
}

template <file::Described T>
Value to_value(const T& described) {
  Value::Object members;
  const auto add = [&](const auto& field) {
    Value value = to_value(described.*field.member);
    if (field.omit_empty && is_empty(value)) return;
    members.push_back({std::string(field.key), {}, std::move(value)});
  };
  std::apply([&](const auto&... field) { (add(field), ...); }, file::fields_of(described));
  return Value(std::move(members));
}

// Would a reader take the bare text for something else than this string?
bool bare_is_safe(const std::string& text) {
  if (codec::yaml::resolve_plain(text).as_string() == nullptr) return false;
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

// Bare where possible; in double quotes if it would read as a number or a word like `true`; in
// single quotes if it has characters of YAML's own.
void append_yaml_string(std::string& out, const std::string& text) {
  const bool typed = codec::yaml::resolve_plain(text).as_string() == nullptr;
  if (typed || !is_printable(text)) return codec::json::append_string(out, text);
  if (bare_is_safe(text)) {
    out += text;
    return;
  }
  out += '\'';
  for (const char c : text)
    out.append(c == '\'' ? 2 : 1, c);
  out += '\'';
}

void append_yaml_members(std::string& out, const Value::Object& members, size_t indent);

// What follows a key or a dash: " value" on the same line, or a block on the lines below.
void append_yaml_value(std::string& out, const Value& value, size_t indent) {
  const auto* members = value.as_object();
  const auto* elements = value.as_array();
  if (members != nullptr && !members->empty()) {
    out += '\n';
    append_yaml_members(out, *members, indent + 2);
  } else if (elements != nullptr && !elements->empty()) {
    out += '\n';
    for (const Value& element : *elements) {
      std::string item;
      append_yaml_value(item, element, indent);
      out.append(indent, ' ') += "-";
      // A map starts behind its dash: "- filePattern: a".
      out += item.starts_with('\n') ? " " + item.substr(indent + 3) : item;
    }
  } else {
    out += ' ';
    if (const std::string* text = value.as_string()) {
      append_yaml_string(out, *text);
    } else {
      codec::json::append(out, value);
    }
    out += '\n';
  }
}

void append_yaml_members(std::string& out, const Value::Object& members, size_t indent) {
  std::vector<const Member*> sorted;
  for (const Member& member : members)
    sorted.push_back(&member);
  std::ranges::sort(sorted, {}, [](const Member* member) { return member->name; });
  for (const Member* member : sorted) {
    out.append(indent, ' ') += member->name + ":";
    append_yaml_value(out, member->value, indent);
  }
}

}  // namespace

codec::Value to_document(const Config& config) { return to_value(file::from_config(config)); }

std::string write_yaml(const Config& config) {
  const Value document = to_document(config);
  std::string out;
  append_yaml_members(out, *document.as_object(), 0);
  return out;
}

}  // namespace config
