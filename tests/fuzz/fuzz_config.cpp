// A KubeProxyConfiguration, as text.
#include <cstdint>
#include <string_view>

#include "config/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)config::file::decode(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
