#include "backend/nftables/fingerprint.h"

#include <cstring>

namespace nftables {
namespace {

constexpr uint64_t kOdd1 = 0x9e3779b97f4a7c15;
constexpr uint64_t kOdd2 = 0xd6e8feb86659fd93;

uint64_t mix(uint64_t value) {
  value ^= value >> 32;
  value *= kOdd2;
  value ^= value >> 29;
  value *= kOdd1;
  return value ^ (value >> 32);
}

// Eight bytes at a time, from two seeds at once.
class Hasher {
 public:
  explicit Hasher(uint64_t seed) : state_(seed) {}

  Hasher& add(uint64_t value) {
    state_ = mix(state_ ^ value) + kOdd1;
    return *this;
  }
  Hasher& add(const void* from, size_t size) {
    const auto* bytes = static_cast<const char*>(from);
    add(size);
    for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t), bytes += sizeof(uint64_t))
      add(word(bytes, sizeof(uint64_t)));
    return size > 0 ? add(word(bytes, size)) : *this;
  }
  Hasher& add(const Bytes& bytes) { return add(bytes.view().data(), bytes.size()); }
  Hasher& add(std::string_view text) { return add(text.data(), text.size()); }

  uint64_t state() const { return mix(state_); }

 private:
  static uint64_t word(const char* bytes, size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, bytes, size);
    return value;
  }

  uint64_t state_;
};

uint64_t number_of(const Target& target) {
  const Class& front = target.front;
  return Hasher(static_cast<uint64_t>(target.kind))
      .add(static_cast<uint64_t>(front.kind) << 2 | static_cast<uint64_t>(front.node_port) << 1 |
           static_cast<uint64_t>(front.sticky))
      .add(static_cast<uint64_t>(front.endpoints) << 32 | front.local)
      .add(target.timeout_s)
      .state();
}

}  // namespace

uint64_t hash_text(std::string_view text) { return Hasher(1).add(text).state(); }

Fingerprint::Sum Fingerprint::hash(const Element& element) {
  const uint64_t all = Hasher(static_cast<uint64_t>(element.set))
                           .add(element.key)
                           .add(element.key_end)
                           .add(element.value)
                           .add(number_of(element.target))
                           .add(element.comment)
                           .state();
  return {all, mix(all ^ kOdd1)};
}

void Fingerprint::add(const Element& element) {
  const Sum one = hash(element);
  sum_.first += one.first;
  sum_.second += one.second * kOdd1;
}

void Fingerprint::remove(const Element& element) {
  const Sum one = hash(element);
  sum_.first -= one.first;
  sum_.second -= one.second * kOdd1;
}

void Fingerprint::add_text(std::string_view text) {
  sum_.first += Hasher(2).add(text).state();
  sum_.second += Hasher(3).add(text).state();
}

void Fingerprint::remove_text(std::string_view text) {
  sum_.first -= Hasher(2).add(text).state();
  sum_.second -= Hasher(3).add(text).state();
}

Element Fingerprint::element() const {
  Element element{.set = SetId::Fingerprint};
  for (const uint64_t half : {sum_.first, sum_.second}) {
    element.key.put_mark(static_cast<uint32_t>(half >> 32));
    element.key.put_mark(static_cast<uint32_t>(half));
  }
  return element;
}

}  // namespace nftables
