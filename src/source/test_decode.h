// Manifest text to objects and to problems in one line each, for tests.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "codec/document.h"
#include "source/decode.h"

namespace source {

inline Decoded decode_text(std::string_view text) {
  Decoded out;
  const auto end = codec::parse_stream(text, [&](const codec::Value& document) -> base::Result<> {
    decode(document, out);
    return {};
  });
  EXPECT_TRUE(end) << end.error().text;
  return out;
}

// "LINE: FIELD: TEXT" each; a warning begins with "warning ".
inline std::vector<std::string> problems(const Decoded& decoded) {
  std::vector<std::string> out;
  for (const auto& problem : decoded.problems) {
    out.push_back((problem.fatal ? "" : "warning ") + std::to_string(problem.at.line) + ": " +
                  problem.field + ": " + problem.text);
  }
  return out;
}

inline std::vector<std::string> problems_of(std::string_view text) {
  return problems(decode_text(text));
}

template <typename T>
const T* only(const Decoded& decoded) {
  if (decoded.objects.size() != 1) return nullptr;
  const auto* object = std::get_if<std::shared_ptr<const T>>(&decoded.objects[0].any);
  return object == nullptr ? nullptr : object->get();
}

inline net::IpAddr ip(std::string_view text) { return *net::IpAddr::parse(text); }

}  // namespace source
