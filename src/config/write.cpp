// The configuration as text: YAML for --write-config-to, a Value for whoever writes JSON.
#include <algorithm>
#include <cmath>

#include "codec/value.h"
#include "codec/yaml_write.h"
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
  if (value.is_null()) return true;
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

}  // namespace

codec::Value to_document(const Config& config) { return to_value(file::from_config(config)); }

std::string write_yaml(const Config& config) {
  std::string out;
  codec::yaml::append(out, to_document(config));
  return out;
}

}  // namespace config
