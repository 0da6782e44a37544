// The table in the words of the program nft: `nft list table` prints the same.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/nftables/elements.h"
#include "backend/nftables/layout.h"

namespace nftables {

// One rule without the white space in front of it.
std::string rule_text(const Rule& rule, net::Family family);
// "10.96.0.1 . tcp . 80 : goto endpoints/3": as in a list of elements.
std::string element_text(const Element& element, net::Family family);

struct Listing {
  Options options;
  std::vector<Target> targets;  // chains on demand, in any order
  // In any order, but those of AllowedSources in that in which the kernel got them.
  std::vector<Element> elements;
  Capacity capacity;
};
// Chains stand in the order in which the kernel got them: static ones first, then those on demand, by target.
// Elements of session affinity are none: only the kernel knows them.
std::string list_table(const Listing& listing);

}  // namespace nftables
