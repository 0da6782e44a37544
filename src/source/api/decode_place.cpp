#include "source/api/decode_place.h"

#include <algorithm>

#include "base/text.h"
#include "source/checks.h"

namespace source::api {

namespace {

codec::Value text_value(std::string_view text) { return codec::Value(std::string(text)); }

}  // namespace

void Complaint::add(std::string path, std::string text, bool fatal) {
  if (fatal_ || (!fatal && !text_.empty())) return;
  text_ = path.empty() ? std::move(text) : std::move(path) + ": " + text;
  fatal_ = fatal;
}

std::string Place::path() const {
  std::string out;
  append_path(out);
  return out;
}

void Place::append_path(std::string& out) const {
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

std::optional<std::string_view> dns_label(const Place& place, std::string_view text) {
  if (is_dns_label(text)) return text;
  place.judge(text_value(text), [](const Field& field) { source::dns_label(field); });
  return std::nullopt;
}

std::optional<std::string_view> dns_subdomain(const Place& place, std::string_view text) {
  if (is_dns_subdomain(text)) return text;
  place.judge(text_value(text), [](const Field& field) { source::dns_subdomain(field); });
  return std::nullopt;
}

std::optional<std::string_view> label_value(const Place& place, std::string_view text) {
  if (is_label_value(text)) return text;
  place.judge(text_value(text), [](const Field& field) { source::label_value(field); });
  return std::nullopt;
}

std::string_view port_name(const Place& place, std::string_view text) {
  if (text.empty() || is_dns_label(text)) return text;
  place.judge(text_value(text), [](const Field& field) { source::port_name(field); });
  return {};
}

net::Protocol protocol(const Place& place, std::string_view text) {
  if (text.empty()) return net::Protocol::Tcp;
  if (const auto known = net::parse_protocol(text)) return *known;
  place.judge(text_value(text), [](const Field& field) { source::protocol(field); });
  return net::Protocol::Tcp;
}

std::optional<net::IpAddr> ip(const Place& place, std::string_view text) {
  const auto address = net::IpAddr::parse(text);
  if (!address) place.judge(text_value(text), [](const Field& field) { source::ip(field); });
  return address;
}

std::optional<net::Cidr> cidr(const Place& place, std::string_view text) {
  const auto block = net::Cidr::parse(text);
  if (!block) place.judge(text_value(text), [](const Field& field) { source::cidr(field); });
  return block;
}

uint16_t port_or_zero(const Place& place, int32_t number) {
  return static_cast<uint16_t>(number_between(place, number, 0, 65535).value_or(0));
}

std::optional<int64_t> number_between(const Place& place, int32_t number, int64_t min,
                                      int64_t max) {
  if (number >= min && number <= max) return number;
  place.judge(codec::Value(int64_t{number}), [&](const Field& field) { field.number(min, max); });
  return std::nullopt;
}

std::string_view one_of(const Place& place, std::string_view text,
                        std::initializer_list<std::string_view> choices) {
  if (text.empty()) return *choices.begin();
  if (const auto* found = std::ranges::find(choices, text); found != choices.end()) return *found;
  place.judge(text_value(text), [&](const Field& field) { source::one_of(field, choices); });
  return *choices.begin();
}

}  // namespace source::api
