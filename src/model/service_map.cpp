#include "model/service_map.h"

#include <algorithm>

namespace model {
namespace {

auto lower_bound(const std::vector<ServiceEntryPtr>& chunk, const ServiceKey& key) {
  return std::ranges::lower_bound(
      chunk, key, {}, [](const ServiceEntryPtr& e) -> const ServiceKey& { return e->key; });
}

}  // namespace

size_t ServiceMap::chunk_of(const ServiceKey& key) const {
  // The last chunk whose first key is not behind `key`; the first chunk if there is none.
  const auto behind = std::ranges::upper_bound(
      chunks_, key, {}, [](const auto& chunk) -> const ServiceKey& { return chunk->front()->key; });
  return behind == chunks_.begin() ? 0 : static_cast<size_t>(behind - chunks_.begin()) - 1;
}

ServiceEntryPtr ServiceMap::find(const ServiceKey& key) const {
  if (chunks_.empty()) return nullptr;
  const Chunk& chunk = *chunks_[chunk_of(key)];
  const auto at = lower_bound(chunk, key);
  return at != chunk.end() && (*at)->key == key ? *at : nullptr;
}

void ServiceMap::put(ServiceEntryPtr entry) {
  if (chunks_.empty()) {
    chunks_.push_back(std::make_shared<const Chunk>(Chunk{std::move(entry)}));
    size_ = 1;
    return;
  }
  const size_t index = chunk_of(entry->key);
  Chunk chunk = *chunks_[index];
  const auto at = chunk.begin() + (lower_bound(chunk, entry->key) - chunk.cbegin());
  if (at != chunk.end() && (*at)->key == entry->key) {
    *at = std::move(entry);
  } else {
    chunk.insert(at, std::move(entry));
    ++size_;
  }
  if (chunk.size() > kMaxChunk) {
    const auto middle = chunk.begin() + kMaxChunk / 2;
    auto upper = std::make_shared<const Chunk>(middle, chunk.end());
    chunk.erase(middle, chunk.end());
    chunks_.insert(chunks_.begin() + static_cast<ptrdiff_t>(index) + 1, std::move(upper));
  }
  chunks_[index] = std::make_shared<const Chunk>(std::move(chunk));
}

void ServiceMap::erase(const ServiceKey& key) {
  if (find(key) == nullptr) return;
  --size_;
  const size_t index = chunk_of(key);
  Chunk chunk = *chunks_[index];
  chunk.erase(chunk.begin() + (lower_bound(chunk, key) - chunk.cbegin()));
  if (chunk.empty()) {
    chunks_.erase(chunks_.begin() + static_cast<ptrdiff_t>(index));
  } else {
    chunks_[index] = std::make_shared<const Chunk>(std::move(chunk));
  }
}

}  // namespace model
