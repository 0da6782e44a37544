#include "source/checks.h"

#include <algorithm>

#include "base/text.h"

namespace source {

namespace {

constexpr size_t kMaxLabel = 63;
constexpr size_t kMaxSubdomain = 253;
constexpr size_t kMaxQuoted = 80;

bool is_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// Without a look at the length.
bool is_label_text(std::string_view text) {
  return !text.empty() && is_alphanumeric(text.front()) && is_alphanumeric(text.back()) &&
         std::ranges::all_of(text, [](char c) { return is_alphanumeric(c) || c == '-'; });
}

std::string got(std::string_view text) {
  return ", got " + base::quote(text.substr(0, kMaxQuoted));
}

void label_error(const Field& field, std::string_view text) {
  field.error(
      "must be a DNS label: at most 63 of a-z, 0-9 and '-', a letter or digit first and last" +
      got(text));
}

}  // namespace

bool is_dns_label(std::string_view text) { return text.size() <= kMaxLabel && is_label_text(text); }

bool is_dns_subdomain(std::string_view text) {
  if (text.size() > kMaxSubdomain) return false;
  while (true) {
    const size_t dot = text.find('.');
    if (!is_label_text(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

bool is_label_value(std::string_view text) {
  const auto allowed = [](char c) { return is_alphanumeric(c) || (c >= 'A' && c <= 'Z'); };
  if (text.empty()) return true;
  return text.size() <= kMaxLabel && allowed(text.front()) && allowed(text.back()) &&
         std::ranges::all_of(
             text, [&](char c) { return allowed(c) || c == '-' || c == '_' || c == '.'; });
}

std::optional<std::string_view> dns_label(const Field& field) {
  const auto text = field.text();
  if (!text || is_dns_label(*text)) return text;
  label_error(field, *text);
  return std::nullopt;
}

std::optional<std::string_view> dns_subdomain(const Field& field) {
  const auto text = field.text();
  if (!text || is_dns_subdomain(*text)) return text;
  field.error(
      "must be a DNS name: at most 253 of a-z, 0-9, '-' and '.', a letter or digit first "
      "and last" +
      got(*text));
  return std::nullopt;
}

std::optional<std::string_view> label_value(const Field& field) {
  const auto text = field.text();
  if (!text || is_label_value(*text)) return text;
  field.error(
      "must be the value of a label: at most 63 of letters, digits, '-', '_' and '.', a letter or "
      "digit first and last" +
      got(*text));
  return std::nullopt;
}

std::string_view port_name(const Field& field) {
  const auto text = field.text();
  if (!text || text->empty()) return {};
  if (is_dns_label(*text)) return *text;
  label_error(field, *text);
  return {};
}

net::Protocol protocol(const Field& field) {
  const auto text = field.text();
  if (!text || text->empty()) return net::Protocol::Tcp;
  const auto protocol = net::parse_protocol(*text);
  if (!protocol) field.error("must be TCP, UDP or SCTP" + got(*text));
  return protocol.value_or(net::Protocol::Tcp);
}

std::optional<net::IpAddr> ip(const Field& field) {
  const auto text = field.text();
  if (!text) return std::nullopt;
  const auto ip = net::IpAddr::parse(*text);
  if (!ip) field.error("must be an IP address" + got(*text));
  return ip;
}

std::optional<net::Cidr> cidr(const Field& field) {
  const auto text = field.text();
  if (!text) return std::nullopt;
  const auto cidr = net::Cidr::parse(*text);
  if (!cidr) field.error("must be a CIDR block" + got(*text));
  return cidr;
}

uint16_t port_or_zero(const Field& field) {
  return static_cast<uint16_t>(field.number(0, 65535).value_or(0));
}

std::string_view one_of(const Field& field, std::initializer_list<std::string_view> choices) {
  const auto text = field.text();
  if (!text || text->empty()) return *choices.begin();
  if (const auto* found = std::ranges::find(choices, *text); found != choices.end()) return *found;
  std::string all;
  for (const auto choice : choices) {
    if (!all.empty()) all += ", ";
    all += choice;
  }
  field.error("must be one of " + all + got(*text));
  return *choices.begin();
}

}  // namespace source
