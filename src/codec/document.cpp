#include "codec/document.h"

#include <unordered_set>

#include "base/text.h"
#include "codec/json.h"
#include "codec/yaml.h"

namespace codec {

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// "{}" or "{" and a name in quotes. A line of three dashes cannot be part of JSON, not even of a
// string: it ends a YAML document.
bool looks_like_json(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos || text[first] != '{') return false;
  const size_t second = text.find_first_not_of(kSpace, first + 1);
  if (second == std::string_view::npos || (text[second] != '"' && text[second] != '}'))
    return false;
  return text.find("\n---") == std::string_view::npos;
}

// Below this a walk over the earlier names is faster than a table of them.
constexpr size_t kSmallObject = 24;

bool appears_before(const Value::Object& members, size_t index) {
  for (size_t i = 0; i < index; ++i) {
    if (members[i].name == members[index].name) return true;
  }
  return false;
}

void collect(const Value& value, std::vector<RepeatedKey>& out) {
  if (const auto* elements = value.as_array()) {
    for (const Value& element : *elements)
      collect(element, out);
  }
  const auto* members = value.as_object();
  if (members == nullptr) return;
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < members->size(); ++i) {
    const Member& member = (*members)[i];
    const bool repeated = members->size() <= kSmallObject ? appears_before(*members, i)
                                                          : !names.insert(member.name).second;
    if (repeated) out.push_back({member.name, member.at});
    collect(member.value, out);
  }
}

}  // namespace

base::Result<> parse_stream(std::string_view text,
                            const std::function<base::Result<>(Value)>& visit,
                            const Limits& limits) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (!looks_like_json(text)) return yaml::parse_stream(text, visit, limits);

  // Documents seen decide whether YAML may still have a try; a visitor's error is final.
  bool visited = false;
  const auto note_and_visit = [&](Value value) {
    visited = true;
    return visit(std::move(value));
  };
  const auto as_json = json::parse_stream(text, note_and_visit, limits);
  if (as_json || visited) return as_json;
  const auto as_yaml = yaml::parse_stream(text, note_and_visit, limits);
  return as_yaml || visited ? as_yaml : as_json;
}

std::vector<RepeatedKey> repeated_keys(const Value& value) {
  std::vector<RepeatedKey> out;
  collect(value, out);
  return out;
}

}  // namespace codec
