#include "serve/compress.h"

#include <zlib.h>

#include <gtest/gtest.h>

namespace serve {
namespace {

std::string gunzip(const std::string& bytes, size_t size) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
  std::string input = bytes;
  std::string out(size + 1, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

TEST(Gzip, GivesBackWhatWentIn) {
  for (const std::string& text :
       {std::string(), std::string("short"), std::string(1'000'000, 'x')}) {
    EXPECT_EQ(gunzip(gzip(text), text.size()), text);
  }
  EXPECT_LT(gzip(std::string(1'000'000, 'x')).size(), 10'000u);
}

}  // namespace
}  // namespace serve
