// The table that the kernel has, but for its elements.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/nftables/contents.h"
#include "backend/nftables/layout.h"
#include "base/result.h"
#include "kernel/netlink.h"
#include "kernel/nf_tables_read.h"

namespace nftables {

struct Skeleton {
  bool table = false;  // is there one?
  uint32_t flags = 0;  // of the table
  std::map<std::string, std::optional<kernel::nf_tables::Chain::Hook>> chains;
  std::map<std::string, std::vector<std::vector<uint8_t>>> rules;  // tags, by chain
  std::map<std::string, kernel::nf_tables::SetInfo> sets;
};
base::Result<Skeleton> read_skeleton(kernel::netlink::Conversation& conversation,
                                     net::Family family);

// Has the table every set as we have it, and nothing that we would not have made?
bool is_ours(const Skeleton& skeleton, const Options& options);
// REQUIRES: it is ours.
Capacity capacity_of(const Skeleton& skeleton);

// Is all of it there? Elements are not read but counted: where the kernel tells their number or, looking closely,
// where they are few.
enum class Look : uint8_t { Briefly, Closely };
base::Result<bool> holds(kernel::netlink::Conversation& conversation, const Skeleton& skeleton,
                         const Contents& wanted, const Options& options, Look how);

// The static ones, and those on demand that something leads to.
std::vector<Chain> all_chains(const Account& account, const Options& options);

}  // namespace nftables
