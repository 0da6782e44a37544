// The decoders of the single kinds; only decode.cpp calls them.
#pragma once

#include <optional>

#include "source/decode.h"
#include "source/field.h"

namespace source {

// nullopt: the object is not used; the reason, if it needs one, is among the problems.
// The name and namespace are checked, but the caller has the last word on fatal problems.
std::optional<Object> decode_service(const Field& root, model::ServiceKey key);
std::optional<Object> decode_slice(const Field& root, std::string ns, std::string name);
std::optional<Object> decode_endpoints(const Field& root, model::ServiceKey key);
std::optional<Object> decode_node(const Field& root, std::string name);
std::optional<Object> decode_service_cidr(const Field& root, std::string name);

}  // namespace source
