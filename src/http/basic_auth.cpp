#include "http/basic_auth.h"

#include <openssl/evp.h>

namespace http {

std::string encode_base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // and the zero that it writes
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  out.resize(static_cast<size_t>(size));
  return out;
}

std::string basic_authorization(const std::string& user, const std::string& password) {
  return "Basic " + encode_base64(user + ":" + password);
}

}  // namespace http
