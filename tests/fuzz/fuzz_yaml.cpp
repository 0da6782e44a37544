// Any bytes as YAML: no crash, bounded memory, and every document can be said in JSON.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "codec/json.h"
#include "codec/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const codec::Limits limits{.nodes = 20'000, .depth = 100};
  const auto end = codec::yaml::parse_stream(
      text,
      [&](const codec::Value& value) -> base::Result<> {
        CHECK(!value.is_null());
        std::string json;
        codec::json::append(json, value);
        CHECK(codec::json::parse(json, limits));
        codec::yaml::duplicate_keys(value);
        return {};
      },
      limits);
  if (!end) CHECK(end.error().text.starts_with("line "));
  return 0;
}
