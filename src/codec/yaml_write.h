// Value to YAML text, as Kubernetes' programs write it. Pure.
#pragma once

#include <string>

#include "codec/value.h"

namespace codec::yaml {

// Appends an object in block form, keys sorted. Texts stand bare where a reader takes them for nothing else.
// REQUIRES: the document is an object.
void append(std::string& out, const Value& document);

}  // namespace codec::yaml
