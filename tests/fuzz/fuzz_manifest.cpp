// Any bytes as a manifest: no crash, and whatever object comes out is safe to write into a rule.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "codec/document.h"
#include "safe_objects.h"
#include "source/decode.h"
#include "source/merge.h"

namespace {

struct Check {
  template <typename T>
  void operator()(const std::shared_ptr<const T>& object) const {
    fuzz::check_safe(*object);
  }
  void operator()(const source::Endpoints& endpoints) const {
    fuzz::check_safe(endpoints.key);
    for (const auto& slice : endpoints.slices)
      fuzz::check_safe(*slice);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  source::Decoded decoded;
  const auto end = codec::parse_stream(text,
                                       [&](const codec::Value& document) -> base::Result<> {
                                         source::decode(document, decoded);
                                         return {};
                                       },
                                       {.nodes = 20'000, .depth = 100});
  if (!end) CHECK(end.error().text.starts_with("line "));
  for (const auto& object : decoded.objects)
    std::visit(Check{}, object.any);

  // The same objects once more are no change; none at all takes each of them away.
  source::Merge merge;
  const auto first = merge.update({{"a.yaml", decoded.objects}});
  CHECK(first.changes.size() <= 3 * size);
  CHECK(merge.update({{"a.yaml", decoded.objects}}).changes.empty());
  CHECK(merge.update({{"a.yaml", {}}}).changes.size() == first.changes.size());
  return 0;
}
