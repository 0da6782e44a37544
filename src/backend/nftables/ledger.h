// What should be in the table: who owns which front end, who shares what, which chains are needed. Pure.
//
// Elements themselves are not kept: they follow from plans. So the ledger is small, and a change needs the plan of before
// and the plan of now.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "backend/nftables/elements.h"
#include "backend/nftables/fingerprint.h"
#include "backend/nftables/layout.h"
#include "model/objects.h"

namespace nftables {

// Gathers elements that come and go, and tells what is left to do in the end. Plans must live as long.
class Changes {
 public:
  void minus(const Element& element);
  void plus(const Element& element);

  struct Change {
    std::optional<Element> before;
    std::optional<Element> now;
  };
  // Calls visit(change) for each key whose element is not what it was; sets in the order of SetId.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [key, change] : changes_) {
      const bool both = change.before && change.now;
      if (!change.before && !change.now) continue;
      if (!both || !change.before->says_the_same(*change.now)) visit(change);
    }
  }

  size_t size() const { return changes_.size(); }

 private:
  struct Place {
    SetId set{};
    Bytes key;
    Bytes key_end;
    auto operator<=>(const Place&) const = default;
  };
  std::map<Place, Change> changes_;
};

class Ledger {
 public:
  using Sink = std::function<void(const Element&)>;

  // Of Services that are in the ledger already.
  struct Others {
    std::function<std::optional<model::ServiceKey>(uint64_t owner)> find;
    std::function<const ServiceElements&(const model::ServiceKey& service)> elements;
  };

  // What the elements of one Service are, from now on or until now. `come` and `go` are called for those that the table
  // gets or loses by it. Of several Services that claim a front end the first by name has it, whoever came first: what
  // the table holds depends on what there is, not on what has been.
  void add(const model::ServiceKey& service, const ServiceElements& elements, const Sink& come,
           const Sink& go, const Others& others);
  // The same while no Service was added that comes behind this one by name.
  void add_in_order(const model::ServiceKey& service, const ServiceElements& elements,
                    const Sink& come);
  void remove(const model::ServiceKey& service, const ServiceElements& elements, const Sink& go);

  // Services that claim a front end which nobody has any more, and which has to be given to them with add_front().
  // REQUIRES: called after all that is removed, and before anything is added.
  struct Heir {
    FrontEnd front;
    model::ServiceKey service;
  };
  std::vector<Heir> take_heirs();
  void add_front(const Front& front, const ServiceElements& elements, const Sink& come);

  // Is it this Service port that has the front end?
  bool owns(const Front& front) const;
  // Does another Service claim it as well?
  bool is_contested(const FrontEnd& front) const { return contenders_.contains(front); }
  // Calls visit(element) for all elements that Services share.
  template <typename Visit>
  void for_each_shared(Visit&& visit) const {
    for (const auto& [element, count] : shared_)
      visit(Element{.set = element.set, .key = element.key});
  }

 private:
  void add_shared(const ServiceElements& elements, const Sink& come);

  struct Shared {
    SetId set{};
    Bytes key;
    bool operator==(const Shared&) const = default;
  };
  struct SharedHash {
    size_t operator()(const Shared& shared) const noexcept;
  };

  std::unordered_map<FrontEnd, uint64_t, FrontEndHash> owners_;
  std::unordered_map<FrontEnd, std::set<model::ServiceKey>, FrontEndHash> contenders_;
  std::vector<FrontEnd> orphans_;  // lost their owner, and have contenders
  std::unordered_map<Shared, uint32_t, SharedHash> shared_;
};

// How many elements each set has, which chains they lead to, and the fingerprint of all that.
class Account {
 public:
  explicit Account(const Options& options);

  void add(const Element& element);
  void remove(const Element& element);

  size_t count(SetId set) const { return counts_.at(static_cast<size_t>(set)); }
  size_t total() const;
  size_t endpoints() const { return count(SetId::Endpoints) + count(SetId::NodePortEndpoints); }
  // Chains on demand that something leads to, and how often.
  const std::map<Target, size_t>& targets() const { return targets_; }
  const Fingerprint& fingerprint() const { return fingerprint_; }

 private:
  void use(const Target& target);
  void drop(const Target& target);

  Options options_;
  std::array<size_t, kSets> counts_{};
  std::map<Target, size_t> targets_;
  Fingerprint fingerprint_;
};

}  // namespace nftables
