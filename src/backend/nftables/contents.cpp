#include "backend/nftables/contents.h"

#include <algorithm>

namespace nftables {

Contents plan_contents(Basis basis, const Options& options) {
  Contents contents{.basis = std::move(basis), .account = Account(options)};
  const Ledger::Sink count = [&](const Element& element) { contents.account.add(element); };
  for (const auto& element : contents.basis.node)
    count(element);
  for_each_service(contents.basis,
                   [&](const model::ServiceKey& key, const ServiceElements& elements) {
                     contents.ledger.add_in_order(key, elements, count);
                   });
  return contents;
}

Capacity capacity_for(const Account& account) {
  return {.endpoints = capacity_for(account.count(SetId::Endpoints)),
          .node_port_endpoints = capacity_for(account.count(SetId::NodePortEndpoints))};
}

Image image_of(const Contents& contents, const Options& options) {
  Image image;
  Listing& listing = image.listing;
  listing.options = options;
  listing.capacity = capacity_for(contents.account);
  for (const auto& [target, uses] : contents.account.targets())
    listing.targets.push_back(target);
  listing.elements = contents.basis.node;
  contents.ledger.for_each_shared(
      [&](const Element& element) { listing.elements.push_back(element); });
  contents.basis.snapshot->services.for_each([&](const model::ServiceEntryPtr& entry) {
    image.plans.push_back(plan::compile_service(*entry, contents.basis.context));
    ServiceElements elements;
    render_service(image.plans.back(), elements);
    for (const auto& front : elements.fronts) {
      if (!contents.ledger.owns(front)) continue;
      const auto own = elements.of(front);
      listing.elements.insert(listing.elements.end(), own.begin(), own.end());
    }
  });
  listing.elements.push_back(contents.account.fingerprint().element());
  return image;
}

}  // namespace nftables
