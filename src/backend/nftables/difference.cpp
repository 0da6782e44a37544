#include "backend/nftables/difference.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"

namespace nftables {
namespace {

// Do entries of session affinity stay valid when these elements of a front end become those?
bool keeps_affinity(std::span<const Element> before, std::span<const Element> now) {
  std::set<Bytes> endpoints;
  std::set<Target> targets;
  for (const auto& element : now) {
    if (is_endpoint_map(element.set)) endpoints.insert(element.value);
    targets.insert(element.target);
  }
  return std::ranges::all_of(before, [&](const Element& element) {
    if (element.target.kind == Target::Kind::Remember) return targets.contains(element.target);
    return !is_endpoint_map(element.set) || endpoints.contains(element.value);
  });
}

bool is_sticky(std::span<const Element> elements) {
  return std::ranges::any_of(elements, [](const Element& element) {
    return element.target.kind == Target::Kind::Remember;
  });
}

// Has the front end policy Local, and endpoints here?
bool is_local(std::span<const Element> elements) {
  return std::ranges::any_of(elements,
                             [](const Element& element) { return element.target.front.local > 0; });
}

// The Service one of whose ports is Front::owner.
std::optional<model::ServiceKey> find_owner(const model::ServiceMap& services, uint64_t owner) {
  std::optional<model::ServiceKey> found;
  services.for_each([&](const model::ServiceEntryPtr& entry) {
    if (entry->service == nullptr) return;
    for (const auto& port : entry->service->ports) {
      if (owner_of(plan::port_name(entry->key, port), port.protocol) == owner) found = entry->key;
    }
  });
  return found;
}

// Notes what becomes of the entries of a front end whose elements change.
void judge_front(std::span<const Element> before, std::span<const Element> now,
                 const FrontEnd& front, AffinityJudge& judge) {
  if (is_local(now) && !is_local(before)) {
    judge.add(front, now, AffinityJudge::Lists::LocalOnly);
  } else if (!keeps_affinity(before, now)) {
    judge.add(front, now);
  }
}

const ServiceElements& render(const Contents& contents, const model::ServiceMap& services,
                              const model::ServiceKey& key, Difference& difference) {
  auto& elements = difference.elements.emplace_back();
  if (const auto entry = services.find(key); entry != nullptr) {
    difference.plans.push_back(plan::compile_service(*entry, contents.basis.context));
    render_service(difference.plans.back(), elements);
  }
  return elements;
}

void change_ledger(Contents& contents, const model::ServiceMap& services, Difference& difference) {
  Ledger& ledger = contents.ledger;
  const Ledger::Sink go = [&](const Element& element) { difference.changes.minus(element); };
  const Ledger::Sink come = [&](const Element& element) { difference.changes.plus(element); };
  const Ledger::Others others{
      .find = [&](uint64_t owner) { return find_owner(services, owner); },
      .elements = [&](const model::ServiceKey& key) -> const ServiceElements& {
        return render(contents, services, key, difference);
      }};
  for (const auto& service : difference.services)
    ledger.remove(service.key, *service.before, go);
  for (const auto& heir : ledger.take_heirs()) {
    const auto& elements = others.elements(heir.service);
    const auto front = std::ranges::find(elements.fronts, heir.front, &Front::id);
    CHECK(front != elements.fronts.end());
    ledger.add_front(*front, elements, come);
  }
  for (const auto& service : difference.services)
    ledger.add(service.key, *service.now, come, go, others);
}

// Nothing if another Service has it now, or none.
std::span<const Element> find_owned(const Ledger& ledger, const ServiceElements& elements,
                                    const FrontEnd& id) {
  const auto front = std::ranges::find(elements.fronts, id, &Front::id);
  if (front == elements.fronts.end() || !ledger.owns(*front)) return {};
  return elements.of(*front);
}

void exchange_node_elements(Basis& basis, std::span<const net::Cidr> service_cidrs,
                            const Options& options, Difference& difference) {
  difference.node =
      std::exchange(basis.node, render_node(options, basis.node_ports, service_cidrs));
  for (const auto& element : difference.node)
    difference.changes.minus(element);
  for (const auto& element : basis.node)
    difference.changes.plus(element);
}

}  // namespace

void compare(Contents& contents, const model::SnapshotPtr& snapshot, const model::DirtySet& dirty,
             const Options& options, Difference& difference) {
  for (const auto& key : dirty.services) {
    difference.services.push_back(
        {.key = key,
         .before = &render(contents, contents.basis.snapshot->services, key, difference),
         .now = &render(contents, snapshot->services, key, difference)});
  }
  // Who has a front end is known only until it is taken away.
  std::vector<std::pair<const Difference::ServiceChange*, const Front*>> sticky;
  for (const auto& service : difference.services) {
    for (const auto& front : service.before->fronts) {
      if (contents.ledger.owns(front) && is_sticky(service.before->of(front)))
        sticky.emplace_back(&service, &front);
    }
  }
  change_ledger(contents, snapshot->services, difference);
  for (const auto& [service, front] : sticky)
    judge_front(service->before->of(*front), find_owned(contents.ledger, *service->now, front->id),
                front->id, difference.judge);
  for (const auto& service : difference.services) {
    for (const auto& front : service.now->fronts) {
      // Taken from another Service, perhaps with its entries.
      if (contents.ledger.is_contested(front.id) && contents.ledger.owns(front))
        difference.judge.add(front.id, service.now->of(front));
    }
  }
  exchange_node_elements(contents.basis, snapshot->service_cidrs, options, difference);
  contents.basis.snapshot = snapshot;
  difference.changes.for_each([&](const Changes::Change& change) {
    if (change.before) contents.account.remove(*change.before);
    if (change.now) contents.account.add(*change.now);
  });
}

AffinityJudge judge_of_all(const Contents& contents, const Options& options, bool rewritten) {
  AffinityJudge judge(options.family, true);
  for_each_front(contents, [&](const Front& front, std::span<const Element> elements) {
    if (!is_sticky(elements)) return;
    const bool local_only = rewritten && is_local(elements);
    judge.add(front.id, elements,
              local_only ? AffinityJudge::Lists::LocalOnly : AffinityJudge::Lists::Both);
  });
  return judge;
}

}  // namespace nftables
