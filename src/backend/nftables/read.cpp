#include "backend/nftables/read.h"

#include <linux/netfilter.h>

#include <algorithm>
#include <map>

#include "backend/nftables/encode.h"
#include "kernel/nf_tables_read.h"

namespace nftables {
namespace {

namespace nft = kernel::nf_tables;
using base::Result;

std::vector<Chain> chains_of(const Listing& listing) {
  auto chains = static_chains(listing.options);
  for (const auto& target : listing.targets)
    chains.push_back(chain_of(target, listing.options));
  return chains;
}

// A chain on demand that nothing leads to; it is deleted some time.
bool is_idle(const std::string& chain, const Listing& wanted) {
  const auto target = parse_target(chain);
  return target && target->on_demand() && std::ranges::count(wanted.targets, *target) == 0;
}

std::string element_line(SetId set, const std::string& text) {
  return "element " + std::string(name(set)) + ": " + text;
}

std::string rule_line(const std::string& chain, size_t number, const std::string& text) {
  return "rule " + chain + " " + std::to_string(number) + ": " + text;
}

std::string hook_text(const std::optional<nft::Chain::Hook>& hook) {
  if (!hook) return "";
  return " " + hook->type + " hook " + std::to_string(hook->number) + " priority " +
         std::to_string(hook->priority) + (hook->accepts ? "" : " policy drop");
}

Bytes bytes_of(const std::vector<uint8_t>& from) {
  Bytes bytes;
  if (from.size() <= Bytes::kMax) bytes.put_raw(from);
  return bytes;
}

// The number before; REQUIRES: there is one.
std::vector<uint8_t> before(std::vector<uint8_t> number) {
  for (auto byte = number.rbegin(); byte != number.rend(); ++byte) {
    if ((*byte)-- != 0) break;
  }
  return number;
}

std::string words_for(SetId set, const nft::ElementInfo& found, net::Family family) {
  Element element{.set = set,
                  .key = bytes_of(found.key),
                  .key_end = bytes_of(found.key_end),
                  .value = bytes_of(found.value),
                  .comment = found.comment};
  if (layout_of(set).holds == SetLayout::Holds::Verdicts) {
    const auto target = found.verdict == NF_DROP ? Target{} : parse_target(found.chain);
    if (!target) return "an element that leads to " + found.chain;
    element.target = *target;
  }
  return element_text(element, family);
}

// The kernel has ranges of one field as where they begin and what follows them.
std::vector<nft::ElementInfo> join_ranges(std::vector<nft::ElementInfo> found) {
  std::ranges::sort(found, {}, [](const nft::ElementInfo& one) {
    return std::pair(bytes_of(one.key), !one.ends_range);
  });
  std::vector<nft::ElementInfo> ranges;
  for (auto& element : found) {
    if (!element.ends_range) {
      element.key_end.assign(element.key.size(), 0xff);
      ranges.push_back(std::move(element));
    } else if (!ranges.empty()) {
      ranges.back().key_end = before(element.key);
    }
  }
  return ranges;
}

Result<> read_elements(nft::Reader& reader, SetId set, net::Family family,
                       std::vector<std::string>& lines) {
  auto found = TRY(reader.elements(std::string(name(set))));
  const SetLayout& layout = layout_of(set);
  if (layout.interval && layout.key.size() == 1) found = join_ranges(std::move(found));
  for (const auto& element : found)
    lines.push_back(element_line(set, words_for(set, element, family)));
  return {};
}

}  // namespace

std::vector<std::string> lines_of(const Listing& wanted) {
  std::vector<std::string> lines;
  for (const auto& chain : chains_of(wanted)) {
    lines.push_back("chain " + chain.name + hook_text(encode(chain).hook));
    for (size_t i = 0; i < chain.rules.size(); ++i)
      lines.push_back(
          rule_line(chain.name, i + 1, rule_text(chain.rules[i], wanted.options.family)));
  }
  for (const auto& element : wanted.elements)
    lines.push_back(element_line(element.set, element_text(element, wanted.options.family)));
  std::ranges::sort(lines);
  return lines;
}

Result<std::vector<std::string>> read_lines(const Listing& wanted) {
  const net::Family family = wanted.options.family;
  std::map<Bytes, std::string> known;  // rules, by their tags
  for (const auto& chain : chains_of(wanted)) {
    for (const auto& rule : chain.rules)
      known.emplace(bytes_of(tag_of(rule, family)), rule_text(rule, family));
  }

  auto conversation = TRY(kernel::netlink::Conversation::open(NETLINK_NETFILTER));
  nft::Reader reader(conversation, family, kTable);
  std::vector<std::string> lines;
  if (!TRY(reader.has_table())) return lines;
  if (const uint32_t flags = TRY(reader.table_flags()); flags != 0)
    lines.push_back("table flags " + std::to_string(flags));
  for (const auto& chain : TRY(reader.chains())) {
    if (!is_idle(chain.name, wanted))
      lines.push_back("chain " + chain.name + hook_text(chain.hook));
  }
  std::map<std::string, size_t> counts;
  for (const auto& rule : TRY(reader.rules())) {
    if (is_idle(rule.chain, wanted)) continue;
    const auto text = known.find(bytes_of(rule.tag));
    lines.push_back(rule_line(rule.chain, ++counts[rule.chain],
                              text == known.end() ? "another rule" : text->second));
  }
  for (const auto& set : TRY(reader.sets())) {
    const auto ours = std::ranges::find(kAllSets, set.name, [](SetId id) { return name(id); });
    if (ours == kAllSets.end()) {
      lines.push_back("set " + set.name);
    } else if (!layout_of(*ours).dynamic) {
      TRY(read_elements(reader, *ours, family, lines));
    }
  }
  std::ranges::sort(lines);
  return lines;
}

}  // namespace nftables
