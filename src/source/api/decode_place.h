// A place in an object for which there is no tree, to complain about what stands there.
//
// The counterpart of source::Field for protobuf, and like it bound to its scope: it points to the place
// above, and the path is only written out when there is something to say. What is wrong is said by the
// checks of manifests (source/checks.h), so that both encodings say the same.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "codec/value.h"
#include "net/ip.h"
#include "source/field.h"

namespace source::api {

// The one thing to say about an object: the first fatal problem, or else the first other one.
class Complaint {
 public:
  void add(std::string path, std::string text, bool fatal);

  bool fatal() const { return fatal_; }
  // "spec.ports[0].port: must be ..."; empty if there is nothing to say.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool fatal_ = false;
};

class Place {
 public:
  explicit Place(Complaint& complaint) : complaint_(complaint) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  Place operator[](std::string_view name) const& { return Place(*this, name, kNoIndex); }
  Place operator[](std::string_view name) const&& = delete;
  Place operator[](std::integral auto index) const& {
    return Place(*this, {}, static_cast<size_t>(index));
  }
  Place operator[](std::integral auto index) const&& = delete;

  // The object is not usable.
  void error(std::string text) const { complaint_.add(path(), std::move(text), true); }
  // The object is used without this.
  void warn(std::string text) const { complaint_.add(path(), std::move(text), false); }

  // Takes over what a check of manifests says of this value here.
  template <typename Check>
  void judge(const codec::Value& value, Check check) const {
    std::vector<Problem> found;
    Problems problems(found);
    const std::string here = path();
    check(Field(value, problems, here));
    for (Problem& problem : found)
      complaint_.add(std::move(problem.field), std::move(problem.text), problem.fatal);
  }

 private:
  static constexpr size_t kNoIndex = SIZE_MAX;

  Place(const Place& parent, std::string_view name, size_t index)
      : complaint_(parent.complaint_), parent_(&parent), name_(name), index_(index) {}

  std::string path() const;
  void append_path(std::string& out) const;

  Complaint& complaint_;
  const Place* parent_ = nullptr;
  std::string_view name_;
  size_t index_ = kNoIndex;
};

// As those of source/checks.h.
std::optional<std::string_view> dns_label(const Place& place, std::string_view text);
std::optional<std::string_view> dns_subdomain(const Place& place, std::string_view text);
std::optional<std::string_view> label_value(const Place& place, std::string_view text);
std::string_view port_name(const Place& place, std::string_view text);
net::Protocol protocol(const Place& place, std::string_view text);
std::optional<net::IpAddr> ip(const Place& place, std::string_view text);
std::optional<net::Cidr> cidr(const Place& place, std::string_view text);
uint16_t port_or_zero(const Place& place, int32_t number);
std::optional<int64_t> number_between(const Place& place, int32_t number, int64_t min, int64_t max);
std::string_view one_of(const Place& place, std::string_view text,
                        std::initializer_list<std::string_view> choices);

}  // namespace source::api
