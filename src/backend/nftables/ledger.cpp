#include "backend/nftables/ledger.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "backend/nftables/text.h"
#include "base/check.h"

namespace nftables {
namespace {

std::string text_of(const Chain& chain, net::Family family) {
  std::string text = chain.name;
  if (chain.hook) {
    text += ' ';
    text += chain.hook->type;
    text += ' ' + std::to_string(chain.hook->number) + ' ' + std::to_string(chain.hook->priority);
  }
  for (const auto& rule : chain.rules)
    text += '\n' + rule_text(rule, family);
  return text;
}

}  // namespace

void Changes::minus(const Element& element) {
  Change& change = changes_[{element.set, element.key, element.key_end}];
  if (change.now) {
    change.now.reset();
  } else {
    change.before = element;
  }
}

void Changes::plus(const Element& element) {
  changes_[{element.set, element.key, element.key_end}].now = element;
}

size_t Ledger::SharedHash::operator()(const Shared& shared) const noexcept {
  const auto key = shared.key.view();
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(key.data()), key.size()}) +
         static_cast<size_t>(shared.set);
}

void Ledger::add(const model::ServiceKey& service, const ServiceElements& elements,
                 const Sink& come, const Sink& go, const Others& others) {
  for (const auto& front : elements.fronts) {
    const auto owner = owners_.find(front.id);
    if (owner == owners_.end()) {
      add_front(front, elements, come);
      continue;
    }
    const auto rival = others.find(owner->second);
    if (!rival || *rival <= service) {
      contenders_[front.id].insert(service);
      continue;
    }
    contenders_[front.id].insert(*rival);
    owners_.erase(owner);
    const ServiceElements& theirs = others.elements(*rival);
    const auto lost = std::ranges::find(theirs.fronts, front.id, &Front::id);
    CHECK(lost != theirs.fronts.end());
    for (const auto& element : theirs.of(*lost))
      go(element);
    add_front(front, elements, come);
  }
  add_shared(elements, come);
}

void Ledger::add_in_order(const model::ServiceKey& service, const ServiceElements& elements,
                          const Sink& come) {
  for (const auto& front : elements.fronts) {
    if (owners_.contains(front.id)) {
      contenders_[front.id].insert(service);
    } else {
      add_front(front, elements, come);
    }
  }
  add_shared(elements, come);
}

void Ledger::add_shared(const ServiceElements& elements, const Sink& come) {
  for (const auto& element : elements.shared) {
    if (shared_[{element.set, element.key}]++ == 0) come(element);
  }
}

void Ledger::add_front(const Front& front, const ServiceElements& elements, const Sink& come) {
  owners_.emplace(front.id, front.owner);
  for (const auto& element : elements.of(front))
    come(element);
}

void Ledger::remove(const model::ServiceKey& service, const ServiceElements& elements,
                    const Sink& go) {
  for (const auto& front : elements.fronts) {
    const auto rivals = contenders_.find(front.id);
    if (owns(front)) {
      owners_.erase(front.id);
      for (const auto& element : elements.of(front))
        go(element);
      if (rivals != contenders_.end()) orphans_.push_back(front.id);
    } else if (rivals != contenders_.end()) {
      rivals->second.erase(service);
      if (rivals->second.empty()) contenders_.erase(rivals);
    }
  }
  for (const auto& element : elements.shared) {
    const auto found = shared_.find({element.set, element.key});
    CHECK(found != shared_.end());
    if (--found->second > 0) continue;
    shared_.erase(found);
    go(element);
  }
}

std::vector<Ledger::Heir> Ledger::take_heirs() {
  std::vector<Heir> heirs;
  for (const auto& front : std::exchange(orphans_, {})) {
    const auto rivals = contenders_.find(front);
    if (owners_.contains(front) || rivals == contenders_.end()) continue;
    heirs.push_back({front, *rivals->second.begin()});
    rivals->second.erase(rivals->second.begin());
    if (rivals->second.empty()) contenders_.erase(rivals);
  }
  return heirs;
}

bool Ledger::owns(const Front& front) const {
  const auto found = owners_.find(front.id);
  return found != owners_.end() && found->second == front.owner;
}

Account::Account(const Options& options) : options_(options) {
  for (const auto& chain : static_chains(options))
    fingerprint_.add_text(text_of(chain, options.family));
  for (const SetId set : sets_of(options))
    fingerprint_.add_text(name(set));
}

void Account::add(const Element& element) {
  fingerprint_.add(element);
  ++counts_.at(static_cast<size_t>(element.set));
  if (element.target.on_demand()) use(element.target);
}

void Account::remove(const Element& element) {
  fingerprint_.remove(element);
  --counts_.at(static_cast<size_t>(element.set));
  if (element.target.on_demand()) drop(element.target);
}

size_t Account::total() const { return std::accumulate(counts_.begin(), counts_.end(), size_t{0}); }

void Account::use(const Target& target) {
  if (targets_[target]++ > 0) return;
  fingerprint_.add_text(text_of(chain_of(target, options_), options_.family));
  for (const auto& other : needed_by(target))
    use(other);
}

void Account::drop(const Target& target) {
  const auto found = targets_.find(target);
  CHECK(found != targets_.end());
  if (--found->second > 0) return;
  targets_.erase(found);
  fingerprint_.remove_text(text_of(chain_of(target, options_), options_.family));
  for (const auto& other : needed_by(target))
    drop(other);
}

}  // namespace nftables
