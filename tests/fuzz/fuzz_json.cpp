// Any bytes as JSON: no crash, and what was read survives being written and read again.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "codec/json.h"

namespace {

std::string written(const codec::Value& value) {
  std::string out;
  codec::json::append(out, value);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const codec::Limits limits{.nodes = 100'000, .depth = 100};
  const auto value = codec::json::parse(text, limits);
  if (!value) {
    CHECK(value.error().text.starts_with("line "));
    return 0;
  }
  const auto again = codec::json::parse(written(*value), limits);
  CHECK(again);
  const std::string once = written(*again);  // -0.0 has become 0 by now
  const auto third = codec::json::parse(once, limits);
  CHECK(third && written(*third) == once);
  return 0;
}
