// User and password as HTTP's basic scheme writes them. Pure.
#pragma once

#include <string>
#include <string_view>

namespace http {

// Standard base64 with padding, on one line.
std::string encode_base64(std::string_view bytes);

// "Basic ..."
std::string basic_authorization(const std::string& user, const std::string& password);

}  // namespace http
