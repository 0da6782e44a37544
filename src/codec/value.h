// A JSON or YAML document as a tree that remembers where each part stood in the text.
//
// Both parsers (codec/json.h, codec/yaml.h) give this type; both decoders (configuration and
// Kubernetes objects) read it. A Value is a plain value: copy it, move it, from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace codec {

struct Position {
  uint32_t line = 0;    // 1-based; 0 = unknown
  uint32_t column = 0;  // 1-based
};

struct Member;

class Value {
 public:
  using Array = std::vector<Value>;
  using Object = std::vector<Member>;  // in the order of the text, duplicates included

  Value();
  explicit Value(bool value);
  explicit Value(int64_t value);
  explicit Value(double value);
  explicit Value(std::string value);
  explicit Value(Array value);
  explicit Value(Object value);
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  bool is_number() const { return as_int() != nullptr || as_double() != nullptr; }
  // Each is nullptr when the value is of another kind.
  const bool* as_bool() const { return std::get_if<bool>(&data_); }
  const int64_t* as_int() const { return std::get_if<int64_t>(&data_); }
  const double* as_double() const { return std::get_if<double>(&data_); }
  const std::string* as_string() const { return std::get_if<std::string>(&data_); }
  const Array* as_array() const { return std::get_if<Array>(&data_); }
  const Object* as_object() const { return std::get_if<Object>(&data_); }
  Array* as_array() { return std::get_if<Array>(&data_); }
  Object* as_object() { return std::get_if<Object>(&data_); }

  // The member of that name, or nullptr; the last one if there are several (the last key wins).
  const Value* find(std::string_view name) const;

  // "null", "bool", "number", "string", "array" or "object": the words of JSON.
  std::string_view kind_name() const;

  Position at;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> data_;
};

struct Member {
  std::string name;
  Position at;  // of the name
  Value value;
};

// Down here, as clang wants Member to be complete wherever an Object may be destroyed.
inline Value::Value() = default;
inline Value::Value(bool value) : data_(value) {}
inline Value::Value(int64_t value) : data_(value) {}
inline Value::Value(double value) : data_(value) {}
inline Value::Value(std::string value) : data_(std::move(value)) {}
inline Value::Value(Array value) : data_(std::move(value)) {}
inline Value::Value(Object value) : data_(std::move(value)) {}
inline Value::Value(const Value&) = default;
inline Value::Value(Value&&) noexcept = default;
inline Value& Value::operator=(const Value&) = default;
inline Value& Value::operator=(Value&&) noexcept = default;
inline Value::~Value() = default;

}  // namespace codec
