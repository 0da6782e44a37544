// Reads back what a table of nf_tables holds.
//
// Dumps are answered piece by piece; if the rules change meanwhile, they are asked for again. Large sets take long: the
// kernel walks over what it has told already for each piece.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/netlink.h"
#include "kernel/nf_tables.h"
#include "net/ip.h"

namespace kernel::nf_tables {

struct ChainInfo {
  std::string name;
  std::optional<Chain::Hook> hook;
};

struct RuleInfo {
  std::string chain;
  std::vector<uint8_t> tag;  // empty: not one of ours
};

struct SetInfo {
  std::string name;
  uint32_t flags = 0;
  uint32_t key_type = 0;
  uint32_t key_size = 0;
  uint32_t value_type = 0;
  uint32_t value_size = 0;
  uint32_t size = 0;              // most elements, 0 = no limit
  std::optional<uint32_t> count;  // of elements; older kernels do not tell
};
// As the kernel would tell of it.
SetInfo info_of(const Set& set);

struct ElementInfo {
  std::vector<uint8_t> key;
  std::vector<uint8_t> key_end;
  bool ends_range = false;
  std::vector<uint8_t> value;
  std::optional<int32_t> verdict;
  std::string chain;
  std::string comment;
  std::chrono::milliseconds timeout{};  // 0: that of the set, or none
  std::chrono::milliseconds left{};
};

// Exposed for tests: never reads beyond the message.
std::vector<ElementInfo> parse_elements(const nlmsghdr& message);

// Counts the transactions of everybody in this network namespace.
base::Result<uint32_t> generation(netlink::Conversation& conversation);

class Reader {
 public:
  // `conversation` must live longer.
  Reader(netlink::Conversation& conversation, net::Family family, std::string table)
      : conversation_(conversation), family_(family), table_(std::move(table)) {}

  base::Result<bool> has_table();
  // NFT_TABLE_F_DORMANT and the like. REQUIRES: there is a table.
  base::Result<uint32_t> table_flags();
  base::Result<std::vector<ChainInfo>> chains();
  base::Result<std::vector<RuleInfo>> rules();  // of each chain in order
  base::Result<std::vector<SetInfo>> sets();
  base::Result<std::vector<ElementInfo>> elements(const std::string& set);
  base::Result<size_t> count_elements(const std::string& set);

 private:
  netlink::Message elements_request(const std::string& set) const;
  netlink::Message request(uint16_t type, uint16_t flags, uint16_t table_attribute) const;
  template <typename T>
  base::Result<std::vector<T>> dump(
      const netlink::Message& message, const std::string& what,
      const std::function<void(const nlmsghdr&, std::vector<T>&)>& parse);

  netlink::Conversation& conversation_;
  net::Family family_;
  std::string table_;
};

}  // namespace kernel::nf_tables
