#include "daemon/clean_up.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backend/iptables/cleanup.h"
#include "backend/iptables/commit.h"
#include "backend/ipvs/layout.h"
#include "backend/ipvs/rules.h"
#include "backend/nftables/layout.h"
#include "backend/userspace/portals.h"
#include "base/text.h"
#include "kernel/ipset.h"
#include "kernel/ipvs.h"
#include "kernel/link.h"
#include "kernel/netfilter.h"
#include "kernel/nf_tables_read.h"
#include "kernel/sysctl.h"
#include "kernel/tcp_reset.h"
#include "log/log.h"

namespace proxyd {
namespace {

using base::ErrorCode;
using base::Result;

using Complain = std::function<void(const base::Error&)>;

// How long the kernel may take to free rules that are gone, and with them their hold on a set.
constexpr auto kSetPatience = std::chrono::seconds(2);
constexpr auto kSetPause = std::chrono::milliseconds(20);

std::vector<std::string> set_names(net::Family family) {
  std::vector<std::string> names;
  for (const auto set : ipvs::all_sets())
    names.push_back(ipvs::set_name(set, family));
  return names;
}

// Nothing there to remove, or nothing there that could hold it.
bool is_absence(const base::Error& error) {
  return error.code == ErrorCode::NotFound || error.code == ErrorCode::Unsupported;
}

void complain_unless_absent(const Result<>& done, const Complain& complain) {
  if (!done && !is_absence(done.error())) complain(done.error());
}

void remove_nftables_table(net::Family family, const Complain& complain) {
  complain_unless_absent(kernel::delete_nft_table(family, nftables::kTable), complain);
}

void remove_iptables_rules(net::Family family, const iptables::Owned& owned,
                           const Complain& complain) {
  const auto works = iptables::Programs(family).probe();
  if (works) {
    std::ranges::for_each(iptables::remove_rules(family, owned), complain);
  } else if (works.error().code == ErrorCode::Permission) {
    complain(works.error());
  } else {
    klog::info("No iptables support for family",
               {{"ipFamily", net::name(family)}, {"error", works.error().text}});
  }
}

Result<> flush_virtual_servers() {
  auto ipvs = TRY(kernel::Ipvs::open());
  return ipvs.flush();
}

// Destroys `names`. Returns those that are still in use.
std::vector<std::string> destroy(kernel::Ipset& ipset, const std::vector<std::string>& names,
                                 const Complain& complain) {
  std::vector<std::string> busy;
  for (const auto& name : names) {
    const auto done = ipset.destroy(name);
    if (!done && done.error().code == ErrorCode::Busy) {
      busy.push_back(name);
    } else {
      complain_unless_absent(done, complain);
    }
  }
  return busy;
}

// The kernel frees a deleted rule of iptables-nft some time after it has acknowledged the deletion, and tells nobody
// when: sets that are still in use are tried again for a while.
Result<> destroy_sets(net::Family family, const Complain& complain) {
  auto ipset = TRY(kernel::Ipset::open());
  std::vector<std::string> names = set_names(family);
  const auto deadline = std::chrono::steady_clock::now() + kSetPatience;
  while (!(names = destroy(ipset, names, complain)).empty()) {
    if (std::chrono::steady_clock::now() > deadline) break;
    std::this_thread::sleep_for(kSetPause);
  }
  for (const auto& name : names)
    complain_unless_absent(ipset.destroy(name), complain);
  return {};
}

// Virtual servers and their device are there for both families: whichever comes first removes them.
void remove_servers(const Complain& complain) {
  complain_unless_absent(flush_virtual_servers(), complain);
  complain_unless_absent(kernel::delete_link(ipvs::kDevice, ipvs::kDeviceKind), complain);
}

// Rules go before the sets that they use. Without `rules`, no program is run.
void remove_ipvs_and_rules(net::Family family, const std::optional<iptables::Owned>& rules,
                           const Complain& complain) {
  remove_servers(complain);
  if (rules) remove_iptables_rules(family, *rules, complain);
  complain_unless_absent(destroy_sets(family, complain), complain);
}

// Modes iptables and ipvs share chains.
iptables::Owned owned_by_iptables_and_ipvs() {
  return iptables::both(iptables::owned(), ipvs::owned());
}
iptables::Owned owned_by_all() {
  return iptables::both(owned_by_iptables_and_ipvs(), userspace::owned());
}

// iptables-legacy has tables of its own; only it knows what is in them.
bool has_legacy_tables(net::Family family) {
  const auto names = kernel::read_small_file(
      family == net::Family::V4 ? "/proc/net/ip_tables_names" : "/proc/net/ip6_tables_names");
  return names ? !base::trim(*names).empty() : names.error().code != ErrorCode::NotFound;
}

// What modes have in the table nat whatever Services there are.
constexpr std::string_view kServices = "KUBE-SERVICES";
constexpr std::string_view kPostrouting = "KUBE-POSTROUTING";
std::string_view portals_chain() {
  return userspace::name(userspace::PortalChain::ServicesContainer);
}

// iptables-nft has the tables of nf_tables with the names that iptables has.
Result<bool> has_nft_chain(net::Family family, const std::set<std::string_view>& any_of) {
  auto conversation = TRY(kernel::netlink::Conversation::open(NETLINK_NETFILTER));
  kernel::nf_tables::Reader reader(conversation, family, "nat");
  if (!TRY(reader.has_table())) return false;
  const auto chains = TRY(reader.chains());
  return std::ranges::any_of(chains,
                             [&](const auto& chain) { return any_of.contains(chain.name); });
}

// For modes that use iptables. Where the chain is not there no table is read, nor, by iptables-legacy, made.
bool may_have_chain(net::Family family, std::string_view chain) {
  const auto in_nft = has_nft_chain(family, {chain});
  if (in_nft.value_or(false)) return true;
  if (in_nft && !has_legacy_tables(family)) return false;
  return iptables::Programs(family).chain_presence(iptables::Table::Nat, chain) !=
         iptables::Programs::Presence::Gone;
}

// For modes iptables and ipvs. Parity: they leave each other alone.
void remove_nftables_and_userspace(net::Family family, const Complain& complain) {
  remove_nftables_table(family, complain);
  if (may_have_chain(family, portals_chain()))
    remove_iptables_rules(family, userspace::owned(), complain);
}

// Of iptables-legacy, looking alone would make tables that every packet has to pass.
void remove_all_but_nftables(net::Family family, const Complain& complain) {
  const bool any = may_have_iptables_rules(family);
  remove_ipvs_and_rules(family, any ? std::optional(owned_by_all()) : std::nullopt, complain);
}

void remove_all_but_userspace(net::Family family, const Complain& complain) {
  const bool any = may_have_chain(family, kServices);
  remove_nftables_table(family, complain);
  remove_ipvs_and_rules(family, any ? std::optional(owned_by_iptables_and_ipvs()) : std::nullopt,
                        complain);
}

// What each mode removes.
struct Start {
  std::string_view mode;
  void (*remove)(net::Family, const Complain&);
};
constexpr std::array<Start, 4> kStarts{{
    {"iptables", &remove_nftables_and_userspace},
    {"ipvs", &remove_nftables_and_userspace},
    {"nftables", &remove_all_but_nftables},
    {"userspace", &remove_all_but_userspace},
}};

}  // namespace

bool may_have_iptables_rules(net::Family family) {
  return has_legacy_tables(family) ||
         has_nft_chain(family, {kServices, kPostrouting, portals_chain()}).value_or(true);
}

void clean_other_modes(std::string_view mode, net::Family family) {
  const auto start = std::ranges::find(kStarts, mode, &Start::mode);
  if (start == kStarts.end()) return;
  start->remove(family, [](const base::Error& error) {
    klog::error("Could not remove what another proxy mode has left, ignoring", error.text);
  });
}

bool clean_up_everything() {
  bool clean = true;
  const auto complain = [&](const base::Error& error) {
    klog::error("Could not remove rules", error.text);
    clean = false;
  };
  for (const auto family : net::kFamilies) {
    remove_ipvs_and_rules(family, owned_by_all(), complain);
    remove_nftables_table(family, complain);
    complain_unless_absent(kernel::clear_tcp_resets(family), complain);
  }
  return clean;
}

}  // namespace proxyd
