#include "backend/nftables/skeleton.h"

#include <algorithm>

#include "backend/nftables/encode.h"

namespace nftables {
namespace {

namespace nft = kernel::nf_tables;
using base::Result;

// Kernels before 6.16 do not tell how many elements a set has; more than these are not counted one by one.
constexpr size_t kMostToCount = 20'000;

bool same_hook(const std::optional<nft::Chain::Hook>& left,
               const std::optional<nft::Chain::Hook>& right) {
  if (!left || !right) return left.has_value() == right.has_value();
  return left->number == right->number && left->priority == right->priority &&
         left->type == right->type && left->accepts == right->accepts;
}

bool same_type(const nft::SetInfo& left, const nft::SetInfo& right) {
  return left.flags == right.flags && left.key_type == right.key_type &&
         left.key_size == right.key_size && left.value_type == right.value_type &&
         left.value_size == right.value_size;
}

// Has the kernel the chains that are wanted, with their rules?
bool has_chains(const Skeleton& skeleton, const Contents& wanted, const Options& options) {
  for (const auto& chain : all_chains(wanted.account, options)) {
    std::vector<std::vector<uint8_t>> tags;
    for (const auto& rule : chain.rules)
      tags.push_back(tag_of(rule, options.family));
    const auto found = skeleton.rules.find(chain.name);
    if (!skeleton.chains.contains(chain.name)) return false;
    if (found == skeleton.rules.end() ? !tags.empty() : found->second != tags) return false;
  }
  return true;
}

// How many elements a set has, as far as that can be told.
Result<std::optional<size_t>> count(nft::Reader& reader, const nft::SetInfo& set, size_t expected,
                                    Look how) {
  if (set.count) return *set.count;
  if (how == Look::Briefly || expected > kMostToCount) return std::nullopt;
  return TRY(reader.count_elements(set.name));
}

}  // namespace

Capacity capacity_of(const Skeleton& skeleton) {
  const auto size = [&](SetId map) { return skeleton.sets.at(std::string(name(map))).size; };
  return {.endpoints = size(SetId::Endpoints),
          .node_port_endpoints = size(SetId::NodePortEndpoints)};
}

Result<Skeleton> read_skeleton(kernel::netlink::Conversation& conversation, net::Family family) {
  nft::Reader reader(conversation, family, kTable);
  Skeleton skeleton;
  skeleton.table = TRY(reader.has_table());
  if (!skeleton.table) return skeleton;
  skeleton.flags = TRY(reader.table_flags());
  for (auto& chain : TRY(reader.chains()))
    skeleton.chains.emplace(std::move(chain.name), std::move(chain.hook));
  for (auto& rule : TRY(reader.rules()))
    skeleton.rules[rule.chain].push_back(std::move(rule.tag));
  for (auto& set : TRY(reader.sets()))
    skeleton.sets.emplace(set.name, std::move(set));
  return skeleton;
}

bool is_ours(const Skeleton& skeleton, const Options& options) {
  if (!skeleton.table || skeleton.flags != 0) return false;
  if (skeleton.sets.size() != sets_of(options).size()) return false;
  for (const SetId set : sets_of(options)) {
    const auto found = skeleton.sets.find(std::string(name(set)));
    if (found == skeleton.sets.end() ||
        !same_type(found->second, info_of(encode(set, options.family, {}))))
      return false;
  }
  std::map<std::string, std::optional<nft::Chain::Hook>> expected;
  for (const auto& chain : static_chains(options))
    expected.emplace(chain.name, encode(chain).hook);
  for (const auto& [chain, hook] : skeleton.chains) {
    const auto found = expected.find(chain);
    if (found == expected.end() ? hook || !parse_target(chain) : !same_hook(hook, found->second))
      return false;
  }
  return true;
}

Result<bool> holds(kernel::netlink::Conversation& conversation, const Skeleton& skeleton,
                   const Contents& wanted, const Options& options, Look how) {
  if (!is_ours(skeleton, options) || !has_chains(skeleton, wanted, options)) return false;
  nft::Reader reader(conversation, options.family, kTable);
  for (const SetId set : sets_of(options)) {
    const SetLayout& layout = layout_of(set);
    // Packets fill some sets, and kernels differ in how they count ranges of one field.
    const bool one_range = layout.interval && layout.key.size() == 1;
    if (layout.dynamic || one_range || set == SetId::Fingerprint) continue;
    const size_t expected = wanted.account.count(set);
    const auto found =
        TRY(count(reader, skeleton.sets.at(std::string(layout.name)), expected, how));
    if (found && *found != expected) return false;
  }
  const auto found = TRY(reader.elements(std::string(name(SetId::Fingerprint))));
  const Element fingerprint = wanted.account.fingerprint().element();
  return found.size() == 1 && std::ranges::equal(found.front().key, fingerprint.key.view());
}

std::vector<Chain> all_chains(const Account& account, const Options& options) {
  auto chains = static_chains(options);
  for (const auto& [target, uses] : account.targets())
    chains.push_back(chain_of(target, options));
  return chains;
}

}  // namespace nftables
