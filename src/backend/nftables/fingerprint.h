// What the table holds, in 128 bits. Pure.
//
// A sum over all elements, in any order, so that a change costs as much as what it changes. Not a defence against
// somebody who makes two tables with one fingerprint.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "backend/nftables/elements.h"

namespace nftables {

class Fingerprint {
 public:
  void add(const Element& element);
  void remove(const Element& element);
  // Chains, rules and sets, as text.
  void add_text(std::string_view text);
  void remove_text(std::string_view text);

  // As the set of this name holds it.
  Element element() const;

  bool operator==(const Fingerprint&) const = default;

 private:
  struct Sum {
    uint64_t first = 0;
    uint64_t second = 0;
    bool operator==(const Sum&) const = default;
  };
  static Sum hash(const Element& element);

  Sum sum_;
};

uint64_t hash_text(std::string_view text);

}  // namespace nftables
