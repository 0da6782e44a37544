// All that the table should hold. Pure.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "backend/nftables/elements.h"
#include "backend/nftables/ledger.h"
#include "backend/nftables/text.h"
#include "model/store.h"
#include "plan/plan.h"

namespace nftables {

// What it follows from.
struct Basis {
  model::SnapshotPtr snapshot;
  plan::Context context;
  std::vector<net::IpAddr> node_ports;  // addresses on which they are open
  std::vector<Element> node;            // elements that belong to no Service
};

struct Contents {
  Basis basis;
  Ledger ledger;
  Account account;
};

Contents plan_contents(Basis basis, const Options& options);

// Calls visit(key, elements) with what each Service wants in the table, one after the other.
template <typename Visit>
void for_each_service(const Basis& basis, Visit&& visit) {
  ServiceElements elements;
  basis.snapshot->services.for_each([&](const model::ServiceEntryPtr& entry) {
    const auto service = plan::compile_service(*entry, basis.context);
    elements.clear();
    render_service(service, elements);
    visit(service.key, elements);
  });
}

// Calls visit(front, elements) for each front end with what it has in the table.
template <typename Visit>
void for_each_front(const Contents& contents, Visit&& visit) {
  for_each_service(contents.basis,
                   [&](const model::ServiceKey& /*key*/, const ServiceElements& elements) {
                     for (const auto& front : elements.fronts) {
                       if (contents.ledger.owns(front)) visit(front, elements.of(front));
                     }
                   });
}

// All elements at once, for tools. They refer to the plans.
struct Image {
  std::deque<plan::ServicePlan> plans;
  Listing listing;
};
Image image_of(const Contents& contents, const Options& options);

// Room that the maps of endpoints need.
Capacity capacity_for(const Account& account);

}  // namespace nftables
