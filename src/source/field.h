// A place in a document: the value and the way to it.
//
//   const Field spec = root.object("spec");
//   const Field port = spec["port"];
//   port.number(1, 65535);   // nullopt, and the complaint "spec.port: must be between ..."
//
// A Field points to the Field above it, so that the path is only written out when there is
// something to complain about. It therefore stays in its scope: no copy, and no child of a
// temporary. A null value is the same as an absent one, as everywhere in Kubernetes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "codec/value.h"
#include "source/problem.h"

namespace source {

class Field {
 public:
  // The top of an object; `name` is what paths begin with, usually nothing.
  Field(const codec::Value& value, Problems& problems, std::string_view name = {})
      : value_(&value), at_(value.at), problems_(problems), name_(name) {}
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  bool present() const { return value_ != nullptr; }
  codec::Position at() const { return at_; }
  // REQUIRES: present().
  const codec::Value& value() const { return *value_; }

  // The member of that name; absent if this is no object.
  Field operator[](std::string_view name) const&;
  Field operator[](std::string_view name) const&& = delete;

  // The same for a member that must be an object: anything else is complained about and absent.
  Field object(std::string_view name) const&;
  Field object(std::string_view name) const&& = delete;

  // The value if it is present and of that type; a wrong type is complained about.
  std::optional<std::string_view> text() const;
  std::optional<bool> boolean() const;
  std::optional<int64_t> number(int64_t min, int64_t max) const;

  // Calls visit(const Field&) for each element of an array.
  template <typename Visit>
  void each(Visit visit) const& {
    const auto* elements = array();
    if (elements == nullptr) return;
    for (size_t i = 0; i < elements->size(); ++i)
      visit(Field(&(*elements)[i], *this, {}, i));
  }
  // The same for an array of objects: other elements are complained about and left out.
  template <typename Visit>
  void each_object(Visit visit) const& {
    each([&](const Field& element) {
      if (element.is_object()) visit(element);
    });
  }
  // Elements of the array; 0 if this is none.
  size_t size() const;

  bool is_object() const;  // complains if not

  // The object is not usable.
  void error(std::string text) const { problems_.add(at_, path(), std::move(text), true); }
  // The object is used without this.
  void warn(std::string text) const { problems_.add(at_, path(), std::move(text), false); }

  std::string path() const;

 private:
  static constexpr size_t kNoIndex = SIZE_MAX;

  Field(const codec::Value* value, const Field& parent, std::string_view name, size_t index);

  const codec::Value::Array* array() const;
  void wrong_type(std::string_view expected) const;
  void append_path(std::string& out) const;

  const codec::Value* value_;
  codec::Position at_;
  Problems& problems_;
  const Field* parent_ = nullptr;
  std::string_view name_;
  size_t index_ = kNoIndex;
};

}  // namespace source
