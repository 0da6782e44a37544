#include "http/basic_auth.h"

#include <gtest/gtest.h>

namespace http {
namespace {

TEST(BasicAuth, IsBase64OnOneLine) {
  EXPECT_EQ(encode_base64(""), "");
  EXPECT_EQ(encode_base64("a"), "YQ==");
  EXPECT_EQ(encode_base64("abc"), "YWJj");
  EXPECT_EQ(encode_base64(std::string(100, 'x')).find('\n'), std::string::npos);
  EXPECT_EQ(basic_authorization("me", "a:b"), "Basic bWU6YTpi");
}

}  // namespace
}  // namespace http
