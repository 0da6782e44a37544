// What the API server checks before a name, an address or a port gets into an object.
//
// Objects from a file have not seen an API server: what passes here ends up in rules of the
// kernel. Each function complains at the field and then gives nothing.
#pragma once

#include <optional>
#include <string_view>

#include "net/ip.h"
#include "source/field.h"

namespace source {

// RFC 1123: lower case letters, digits and '-', at most 63; a letter or digit at both ends.
bool is_dns_label(std::string_view text);
// Labels joined by '.', at most 253 in all; Kubernetes does not limit the single one.
bool is_dns_subdomain(std::string_view text);

// What a label may have as its value, such as a zone: at most 63 of letters, digits, '-', '_', '.'.
bool is_label_value(std::string_view text);

std::optional<std::string_view> dns_label(const Field& field);
std::optional<std::string_view> dns_subdomain(const Field& field);
std::optional<std::string_view> label_value(const Field& field);
// Absent is "".
std::string_view port_name(const Field& field);
// Absent is TCP.
net::Protocol protocol(const Field& field);
std::optional<net::IpAddr> ip(const Field& field);
std::optional<net::Cidr> cidr(const Field& field);
// 0 if absent or wrong.
uint16_t port_or_zero(const Field& field);

// A text that is one of the given; the first if absent, empty or wrong.
std::string_view one_of(const Field& field, std::initializer_list<std::string_view> choices);

}  // namespace source
