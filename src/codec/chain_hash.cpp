#include "codec/chain_hash.h"

#include <memory>

#include <openssl/evp.h>

#include "base/check.h"

namespace codec {
namespace {

struct Digest {
  // Fetched once: looking an algorithm up by name costs more than hashing a short text.
  std::unique_ptr<EVP_MD, decltype(&EVP_MD_free)> algorithm{
      EVP_MD_fetch(nullptr, "SHA256", nullptr), &EVP_MD_free};
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(),
                                                                  &EVP_MD_CTX_free};
};

}  // namespace

ChainHash chain_hash(std::string_view text) {
  thread_local const Digest digest;
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  CHECK(EVP_DigestInit_ex2(digest.context.get(), digest.algorithm.get(), nullptr) == 1);
  CHECK(EVP_DigestUpdate(digest.context.get(), text.data(), text.size()) == 1);
  CHECK(EVP_DigestFinal_ex(digest.context.get(), bytes.data(), nullptr) == 1);

  constexpr std::string_view kBase32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  ChainHash hash;
  for (size_t group = 0; group < 2; ++group) {  // 5 bytes are 8 characters
    uint64_t bits = 0;
    for (size_t i = 0; i < 5; ++i)
      bits = bits << 8 | bytes[5 * group + i];
    for (size_t i = 0; i < 8; ++i)
      hash[8 * group + i] = kBase32[bits >> (35 - 5 * i) & 31];
  }
  return hash;
}

}  // namespace codec
