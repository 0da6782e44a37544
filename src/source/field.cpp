#include "source/field.h"

#include "base/text.h"

namespace source {

Field::Field(const codec::Value* value, const Field& parent, std::string_view name, size_t index)
    : value_(value),
      at_(value == nullptr ? parent.at_ : value->at),
      problems_(parent.problems_),
      parent_(&parent),
      name_(name),
      index_(index) {}

Field Field::operator[](std::string_view name) const& {
  const codec::Value* value = value_ == nullptr ? nullptr : value_->find(name);
  if (value != nullptr && value->is_null()) value = nullptr;
  return Field(value, *this, name, kNoIndex);
}

Field Field::object(std::string_view name) const& {
  const codec::Value* value = value_ == nullptr ? nullptr : value_->find(name);
  if (value != nullptr && value->as_object() == nullptr) {
    if (!value->is_null()) Field(value, *this, name, kNoIndex).wrong_type("an object");
    value = nullptr;
  }
  return Field(value, *this, name, kNoIndex);
}

std::optional<std::string_view> Field::text() const {
  if (value_ == nullptr) return std::nullopt;
  if (const auto* text = value_->as_string()) return *text;
  wrong_type("a string");
  return std::nullopt;
}

std::optional<bool> Field::boolean() const {
  if (value_ == nullptr) return std::nullopt;
  if (const auto* truth = value_->as_bool()) return *truth;
  wrong_type("a bool");
  return std::nullopt;
}

std::optional<int64_t> Field::number(int64_t min, int64_t max) const {
  if (value_ == nullptr) return std::nullopt;
  const auto* number = value_->as_int();
  if (number == nullptr) {
    wrong_type("a whole number");
    return std::nullopt;
  }
  if (*number >= min && *number <= max) return *number;
  error("must be between " + std::to_string(min) + " and " + std::to_string(max) + ", got " +
        std::to_string(*number));
  return std::nullopt;
}

size_t Field::size() const {
  const auto* elements = value_ == nullptr ? nullptr : value_->as_array();
  return elements == nullptr ? 0 : elements->size();
}

bool Field::is_object() const {
  if (value_ != nullptr && value_->as_object() != nullptr) return true;
  wrong_type("an object");
  return false;
}

const codec::Value::Array* Field::array() const {
  if (value_ == nullptr) return nullptr;
  const auto* elements = value_->as_array();
  if (elements == nullptr) wrong_type("an array");
  return elements;
}

void Field::wrong_type(std::string_view expected) const {
  const std::string_view got = value_ == nullptr ? "nothing" : value_->kind_name();
  error("expected " + std::string(expected) + ", got " + std::string(got));
}

std::string Field::path() const {
  std::string out;
  append_path(out);
  return out;
}

void Field::append_path(std::string& out) const {
  if (parent_ != nullptr) parent_->append_path(out);
  if (index_ != kNoIndex) {
    out += '[';
    base::append_number(out, index_);
    out += ']';
    return;
  }
  if (!out.empty() && !name_.empty()) out += '.';
  out += name_;
}

}  // namespace source
