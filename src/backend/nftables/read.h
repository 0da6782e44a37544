// What the kernel has, put into the same words as what it should have: for people, and for tests. Reads every element,
// which takes long for large tables.
#pragma once

#include <string>
#include <vector>

#include "backend/nftables/text.h"
#include "base/result.h"

namespace nftables {

// A line for each chain, rule and element, sorted: "element service-ips: 10.96.0.1 . tcp . 80 : goto endpoints/3".
std::vector<std::string> lines_of(const Listing& wanted);
// The same of the kernel's table; none if there is no table. Session affinity is left out, and chains that were needed
// once. What is not ours is said to be that; rules are known by `wanted`.
base::Result<std::vector<std::string>> read_lines(const Listing& wanted);

}  // namespace nftables
