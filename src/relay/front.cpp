#include "relay/front.h"

#include <utility>

namespace relay {

void Front::offer(Offer offer) {
  const std::lock_guard lock(mutex_);
  std::swap(offer_, offer);
  offers_made_.fetch_add(1, std::memory_order_release);
}

Front::Choice Front::choose(const net::IpAddr& client) const {
  Offer offer;
  {
    const std::lock_guard lock(mutex_);
    offer = offer_;
  }
  // Whether a client is local may take a question to the kernel: not while others wait for the lock.
  const bool differs = offer.for_local && offer.for_local != offer.balancer;
  const bool local = differs && settings_.is_local(client);
  return {std::move(local ? offer.for_local : offer.balancer), offer.proxy_protocol};
}

}  // namespace relay
