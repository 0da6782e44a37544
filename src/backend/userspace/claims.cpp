#include "backend/userspace/claims.h"

#include <algorithm>

namespace userspace {

using base::Result;

std::string str(const Place& place) {
  std::string out;
  if (place.ip.is_unspecified()) {
    out += "<nil>:" + std::to_string(place.port);
  } else {
    net::append_endpoint(out, place.ip, place.port);
  }
  out += '/';
  out += net::name(place.protocol);
  return out;
}

Result<> Claims::take(const Place& place, const Owner& owner) {
  if (const auto held = claims_.find(place); held != claims_.end()) {
    if (held->second.owner == owner) return {};
    return base::fail(base::ErrorCode::Exists, "Port conflict detected on port " + str(place) +
                                                   ".  " + owner.name + " vs " +
                                                   held->second.owner.name);
  }
  auto socket = TRY_CONTEXT(bind_claim(place), "can't open node port for " + str(place));
  claims_.emplace(place, Claim{owner, std::move(socket)});
  by_owner_[owner].push_back(place);
  return {};
}

void Claims::keep_only(const std::vector<Place>& wanted, const Owner& owner) {
  const auto found = by_owner_.find(owner);
  if (found == by_owner_.end()) return;
  std::erase_if(found->second, [&](const Place& place) {
    const bool kept = std::ranges::find(wanted, place) != wanted.end();
    if (!kept) claims_.erase(place);
    return !kept;
  });
  if (found->second.empty()) by_owner_.erase(found);
}

}  // namespace userspace
