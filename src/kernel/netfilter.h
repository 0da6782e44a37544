// Small jobs for netfilter's netlink: packet counters (nfacct), and removing an nftables table.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "net/ip.h"

namespace kernel {

// Can this kernel count packets by name? Unsupported if not; Permission if we may not ask.
base::Result<> probe_counters();

bool counter_exists(const std::string& name);

// How many packets it has counted. NotFound if it is not there.
base::Result<uint64_t> read_counter(const std::string& name);

// Creates the named counter unless it is there.
base::Result<> ensure_counter(const std::string& name);

// Deletes the nftables table `name` of that family. NotFound if there is none.
base::Result<> delete_nft_table(net::Family family, const std::string& name);

}  // namespace kernel
