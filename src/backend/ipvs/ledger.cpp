#include "backend/ipvs/ledger.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <tuple>

#include "base/check.h"

namespace ipvs {
namespace {

using kernel::RealServer;
using kernel::ServerKey;
using kernel::SetEntry;
using kernel::VirtualServer;

size_t mix(size_t a, size_t b) { return (a ^ b) * 0x9fb21c651e98df25 + (a >> 29); }

// Walks two sorted lists side by side: only_left(x), only_right(y) or both(x, y), in order.
template <typename Left, typename Right, typename LeftKey, typename RightKey, typename OnlyLeft,
          typename OnlyRight, typename Both>
void side_by_side(const Left& left, const Right& right, LeftKey left_key, RightKey right_key,
                  OnlyLeft only_left, OnlyRight only_right, Both both) {
  auto x = left.begin();
  auto y = right.begin();
  while (x != left.end() || y != right.end()) {
    if (y == right.end() || (x != left.end() && left_key(*x) < right_key(*y))) {
      only_left(*x++);
    } else if (x == left.end() || right_key(*y) < left_key(*x)) {
      only_right(*y++);
    } else {
      both(*x++, *y++);
    }
  }
}

template <typename T>
std::vector<T> without(const std::vector<T>& sorted, const std::vector<T>& others) {
  std::vector<T> left;
  std::ranges::set_difference(sorted, others, std::back_inserter(left));
  return left;
}

template <typename T>
std::vector<T> sorted_once(std::vector<T> list) {
  std::ranges::sort(list);
  const auto repeated = std::ranges::unique(list);
  list.erase(repeated.begin(), repeated.end());
  return list;
}

const ServerKey& key_of(const Front& front) { return front.server.key; }

// Weights aside, what tells one real server from another.
std::tuple<const net::IpAddr&, uint16_t> place_of(const RealServer& real) {
  return {real.ip, real.port};
}

void add_all(const ServerKey& server, const Targets& targets, std::vector<RealChange>& changes) {
  for (const auto& real : targets)
    changes.push_back({server, real});
}

// REQUIRES: both are sorted.
void compare_reals(const ServerKey& server, const std::vector<RealServer>& before,
                   const Targets& now, Difference& out) {
  side_by_side(
      before, now, place_of, place_of,
      [&](const RealServer& real) { out.reals_removed.push_back({server, real}); },
      [&](const RealServer& real) { out.reals_added.push_back({server, real}); },
      [&](const RealServer& old_real, const RealServer& real) {
        if (old_real.weight != real.weight) out.reals_updated.push_back({server, real});
      });
}

}  // namespace

// ---- Difference

bool Difference::empty() const { return size() == 0; }

size_t Difference::size() const {
  return sets_missing.size() + entries_added.size() + entries_removed.size() +
         servers_added.size() + servers_updated.size() + servers_removed.size() +
         reals_added.size() + reals_updated.size() + reals_removed.size() + bound.size() +
         unbound.size();
}

// ---- what there is

size_t Ledger::Hash::operator()(const net::IpAddr& ip) const noexcept {
  uint64_t halves[2];
  std::memcpy(halves, ip.data(), sizeof halves);
  return mix(mix(static_cast<size_t>(ip.family()) + 1, halves[0]), halves[1]);
}

size_t Ledger::Hash::operator()(const ServerKey& key) const noexcept {
  const size_t rest = static_cast<size_t>(key.port) << 2 | static_cast<size_t>(key.protocol);
  return mix((*this)(key.ip), rest);
}

size_t Ledger::Hash::operator()(const Entry& entry) const noexcept {
  const SetEntry& what = entry.entry;
  const size_t rest =
      static_cast<size_t>(what.other.prefix_length()) << 8 | static_cast<size_t>(entry.set);
  return mix(mix((*this)(ServerKey{what.ip, what.port, what.protocol}), (*this)(what.other.base())),
             rest);
}

Ledger::Holding Ledger::holding(const ServerKey& key) const {
  const auto owner = owners_.find(key);
  if (owner == owners_.end()) return {};
  const ServiceContents& contents = owner->second->second;
  const auto front = std::ranges::lower_bound(contents.fronts, key, {}, key_of);
  CHECK(front != contents.fronts.end() && key_of(*front) == key);
  return {&front->server, &contents.targets.at(front->targets)};
}

std::vector<Ledger::Holding> Ledger::holdings() const {
  std::vector<Holding> all;
  all.reserve(owners_.size());
  for (const auto& service : services_) {
    const ServiceContents& contents = service.second;
    for (const auto& front : contents.fronts) {
      if (owners_.at(key_of(front)) == &service)
        all.push_back({&front.server, &contents.targets.at(front.targets)});
    }
  }
  std::ranges::sort(all, {},
                    [](const Holding& one) -> const ServerKey& { return one.server->key; });
  return all;
}

std::array<std::vector<SetEntry>, kSets> Ledger::entries() const {
  std::array<std::vector<SetEntry>, kSets> sets;
  for (size_t i = 0; i < kSets; ++i)
    sets[i].reserve(set_sizes_[i]);
  for (const auto& [entry, count] : entries_)
    sets[static_cast<size_t>(entry.set)].push_back(entry.entry);
  for (const auto& [ip, count] : bound_)
    sets[static_cast<size_t>(SetId::IpvsIps)].push_back({.ip = ip});
  for (auto& set : sets)
    std::ranges::sort(set);
  return sets;
}

std::vector<net::IpAddr> Ledger::bound() const {
  std::vector<net::IpAddr> all;
  all.reserve(bound_.size());
  for (const auto& [ip, count] : bound_)
    all.push_back(ip);
  std::ranges::sort(all);
  return all;
}

Observed Ledger::everything() const {
  Observed all;
  for (const auto& one : holdings())
    all.servers.push_back({*one.server, *one.targets});
  auto sets = entries();
  for (size_t i = 0; i < kSets; ++i)
    all.sets[i] = std::move(sets[i]);
  all.bound = bound();
  return all;
}

bool Ledger::has_entries(SetId set) const { return set_sizes_.at(static_cast<size_t>(set)) > 0; }

std::vector<Guard> Ledger::guards() const {
  std::vector<Guard> all;
  for (const auto& [guard, count] : guards_)
    all.push_back(guard);
  return all;
}

// ---- update()

// Changes that cancel out (one Service gives up what another begins to claim) are told apart from the rest in the end,
// so that the order of Services does not matter.
class Ledger::Update {
 public:
  explicit Update(Ledger& ledger) : ledger_(ledger) {}

  // REQUIRES: called for all Services before the first replace().
  void note_fronts(const model::ServiceKey& key, const ServiceContents& now) {
    for_each_front(contents_of(key), now, [&](const Front* before, const Front* front) {
      const ServerKey& server = key_of(before != nullptr ? *before : *front);
      touched_.push_back({server, ledger_.holding(server)});
    });
  }

  void replace(const model::ServiceKey& key, ServiceContents now) {
    const auto [place, is_new] = ledger_.services_.try_emplace(key);
    ServiceContents& contents = place->second;
    for_each_front(contents, now, [&](const Front* before, const Front* front) {
      if (before == nullptr) claim(key_of(*front), *place);
      if (front == nullptr) release(key_of(*before), *place);
    });
    count(contents.entries, now.entries, ledger_.entries_, entries_come_, entries_go_);
    count(contents.bound, now.bound, ledger_.bound_, bound_come_, bound_go_);
    std::vector<Guard> guards_come, guards_go;
    count(contents.guards, now.guards, ledger_.guards_, guards_come, guards_go);
    ledger_.endpoints_ -= contents.endpoints;
    ledger_.endpoints_ += now.empty() ? 0 : now.endpoints;
    // What touched_ points to must stay until the end.
    before_.push_back(std::exchange(contents, std::move(now)));
    if (contents.empty()) ledger_.services_.erase(place);
  }

  Difference finish() && {
    Difference out;
    servers(out);
    cancel_out(entries_come_, entries_go_, out.entries_added, out.entries_removed);
    cancel_out(bound_come_, bound_go_, out.bound, out.unbound);
    // IpvsIps is the last of the sets.
    for (const auto& ip : out.bound)
      out.entries_added.push_back({SetId::IpvsIps, {.ip = ip}});
    for (const auto& ip : out.unbound)
      out.entries_removed.push_back({SetId::IpvsIps, {.ip = ip}});
    for (const auto& entry : out.entries_added)
      ++ledger_.set_sizes_.at(static_cast<size_t>(entry.set));
    for (const auto& entry : out.entries_removed)
      --ledger_.set_sizes_.at(static_cast<size_t>(entry.set));
    return out;
  }

 private:
  struct Touched {
    ServerKey key;
    Holding before;
  };

  const ServiceContents& contents_of(const model::ServiceKey& key) const {
    static const ServiceContents kNone;
    const auto found = ledger_.services_.find(key);
    return found != ledger_.services_.end() ? found->second : kNone;
  }

  // Calls visit(before, now) for each front end that differs; null where there is none.
  template <typename Visit>
  static void for_each_front(const ServiceContents& before, const ServiceContents& now,
                             Visit&& visit) {
    side_by_side(
        before.fronts, now.fronts, key_of, key_of,
        [&](const Front& front) { visit(&front, nullptr); },
        [&](const Front& front) { visit(nullptr, &front); },
        [&](const Front& old_front, const Front& front) {
          if (old_front.server != front.server ||
              before.targets.at(old_front.targets) != now.targets.at(front.targets))
            visit(&old_front, &front);
        });
  }

  void claim(const ServerKey& key, const Service& service) {
    const auto [place, is_free] = ledger_.owners_.try_emplace(key, &service);
    if (is_free) return;
    const Service* second = &service;
    if (second->first < place->second->first) std::swap(second, place->second);
    auto& waiting = ledger_.contenders_[key];
    waiting.insert(std::ranges::lower_bound(waiting, second->first, {}, name_of), second);
  }

  void release(const ServerKey& key, const Service& service) {
    const auto place = ledger_.owners_.find(key);
    CHECK(place != ledger_.owners_.end());
    const auto rivals = ledger_.contenders_.find(key);
    if (rivals == ledger_.contenders_.end()) {
      CHECK(place->second == &service);
      ledger_.owners_.erase(place);
      return;
    }
    auto& waiting = rivals->second;
    if (place->second == &service) {
      place->second = waiting.front();
      waiting.erase(waiting.begin());
    } else {
      waiting.erase(std::ranges::lower_bound(waiting, service.first, {}, name_of));
    }
    if (waiting.empty()) ledger_.contenders_.erase(rivals);
  }

  static const model::ServiceKey& name_of(const Service* service) { return service->first; }

  template <typename T, typename Map>
  static void count(const std::vector<T>& before, const std::vector<T>& now, Map& counts,
                    std::vector<T>& come, std::vector<T>& go) {
    for (const auto& one : without(before, now)) {
      const auto found = counts.find(one);
      CHECK(found != counts.end());
      if (--found->second > 0) continue;
      counts.erase(found);
      go.push_back(one);
    }
    for (const auto& one : without(now, before)) {
      if (counts[one]++ == 0) come.push_back(one);
    }
  }

  // What has come and gone again, or the other way round, is as it was.
  template <typename T>
  static void cancel_out(std::vector<T>& come, std::vector<T>& go, std::vector<T>& added,
                         std::vector<T>& removed) {
    std::ranges::sort(come);
    std::ranges::sort(go);
    added = without(come, go);
    removed = without(go, come);
  }

  void servers(Difference& out) {
    std::ranges::sort(touched_, {}, &Touched::key);
    const auto repeated = std::ranges::unique(touched_, {}, &Touched::key);
    touched_.erase(repeated.begin(), repeated.end());
    for (const auto& [key, before] : touched_) {
      const Holding now = ledger_.holding(key);
      if (now.server == nullptr) {
        if (before.server != nullptr) out.servers_removed.push_back(key);
      } else if (before.server == nullptr) {
        out.servers_added.push_back(*now.server);
        add_all(key, *now.targets, out.reals_added);
      } else {
        if (*before.server != *now.server) out.servers_updated.push_back(*now.server);
        compare_reals(key, *before.targets, *now.targets, out);
      }
    }
  }

  Ledger& ledger_;
  std::vector<Touched> touched_;
  std::deque<ServiceContents> before_;
  std::vector<Entry> entries_come_, entries_go_;
  std::vector<net::IpAddr> bound_come_, bound_go_;
};

Difference Ledger::update(std::vector<std::pair<model::ServiceKey, ServiceContents>> services) {
  Update update(*this);
  for (const auto& [key, contents] : services)
    update.note_fronts(key, contents);
  for (auto& [key, contents] : services)
    update.replace(key, std::move(contents));
  return std::move(update).finish();
}

// ---- compare()

Difference Ledger::compare(const Observed& observed,
                           const std::function<bool(const net::IpAddr&)>& is_excluded) const {
  Difference out;
  const auto wanted_sets = entries();
  for (const SetId set : all_sets()) {
    const auto& wanted = wanted_sets.at(static_cast<size_t>(set));
    const auto& there = observed.sets.at(static_cast<size_t>(set));
    if (!there) out.sets_missing.push_back(set);
    const auto have = sorted_once(there.value_or(std::vector<SetEntry>{}));
    for (const auto& entry : without(wanted, have))
      out.entries_added.push_back({set, entry});
    for (const auto& entry : without(have, wanted))
      out.entries_removed.push_back({set, entry});
  }
  const auto wanted_bound = bound();
  const auto have_bound = sorted_once(observed.bound);
  out.bound = without(wanted_bound, have_bound);
  out.unbound = without(have_bound, wanted_bound);
  compare_servers(observed, is_excluded, out);
  return out;
}

void Ledger::compare_servers(const Observed& observed,
                             const std::function<bool(const net::IpAddr&)>& is_excluded,
                             Difference& out) const {
  std::vector<const Observed::Server*> there;
  there.reserve(observed.servers.size());
  for (const auto& server : observed.servers)
    there.push_back(&server);
  const auto key_there = [](const Observed::Server* one) -> const ServerKey& {
    return one->server.key;
  };
  std::ranges::sort(there, {}, key_there);
  side_by_side(
      there, holdings(), key_there,
      [](const Holding& one) -> const ServerKey& { return one.server->key; },
      [&](const Observed::Server* nobodys) {
        if (!is_excluded(nobodys->server.key.ip))
          out.servers_removed.push_back(nobodys->server.key);
      },
      [&](const Holding& missing) {
        out.servers_added.push_back(*missing.server);
        add_all(missing.server->key, *missing.targets, out.reals_added);
      },
      [&](const Observed::Server* before, const Holding& now) {
        if (before->server != *now.server) out.servers_updated.push_back(*now.server);
        compare_reals(now.server->key, sorted_once(before->reals), *now.targets, out);
      });
}

}  // namespace ipvs
