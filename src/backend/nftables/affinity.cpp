#include "backend/nftables/affinity.h"

#include <cstring>

namespace nftables {
namespace {

using std::chrono::milliseconds;

constexpr size_t kPortKeySize = 8;  // protocol and port

// Is the endpoint numbered as one of the node-local list?
bool has_local_number(const Element& element) {
  uint32_t number = 0;
  const auto key = element.key.view();
  std::memcpy(&number, key.data() + key.size() - sizeof number, sizeof number);
  return number >= kLocalList;
}

}  // namespace

void AffinityJudge::add(const FrontEnd& front, std::span<const Element> elements, Lists lists) {
  Now& now = fronts_[key_of(front)];
  for (const auto& element : elements) {
    if (element.target.kind == Target::Kind::Remember)
      now.timeout = std::chrono::seconds(element.target.timeout_s);
    if (is_endpoint_map(element.set) && (lists == Lists::Both || has_local_number(element)))
      now.endpoints.insert(element.value);
  }
}

// An address that has the port as a Service comes before the node port, as it does for packets.
const AffinityJudge::Now* AffinityJudge::find(std::span<const uint8_t> key) const {
  const size_t address = family_ == net::Family::V4 ? 4 : 16;
  if (key.size() != 2 * address + kPortKeySize) return nullptr;
  const auto front = key.first(address + kPortKeySize);
  for (const auto part : {front, front.subspan(address)}) {
    Bytes place;
    place.put_raw(part);
    const auto found = fronts_.find(place);
    if (found != fronts_.end()) return &found->second;
  }
  return nullptr;
}

AffinityJudge::Ruling AffinityJudge::judge(const AffinityEntry& entry) const {
  const Now* now = find(entry.key);
  if (now == nullptr) return {.keep = !everything_};
  Bytes endpoint;
  if (entry.endpoint.size() <= Bytes::kMax) endpoint.put_raw(entry.endpoint);
  if (now->timeout == milliseconds(0) || !now->endpoints.contains(endpoint)) return {.keep = false};
  if (now->timeout == entry.timeout) return {};
  const milliseconds left = now->timeout - (entry.timeout - entry.left);
  if (left <= milliseconds(0)) return {.keep = false};
  return {.timeout = now->timeout, .left = left};
}

}  // namespace nftables
