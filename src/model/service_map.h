// All Services of a snapshot, ordered by namespace and name: a map whose copies share what they
// have in common.
//
// Copying is cheap, and changing a copy replaces one small chunk in it, so a snapshot costs the same
// in a cluster of 100 and of 50,000 Services. Chunks never change: copies may be used from any thread.
#pragma once

#include <memory>
#include <vector>

#include "model/objects.h"

namespace model {

// One Service with its slices: the unit of work.
struct ServiceEntry {
  ServiceKey key;
  std::shared_ptr<const Service> service;                    // null: only slices are known
  std::vector<std::shared_ptr<const EndpointSlice>> slices;  // by name, unique
};
using ServiceEntryPtr = std::shared_ptr<const ServiceEntry>;

class ServiceMap {
 public:
  size_t size() const { return size_; }

  // Null if there is no such Service.
  ServiceEntryPtr find(const ServiceKey& key) const;

  // Adds the entry, or puts it in place of the one with its key.
  void put(ServiceEntryPtr entry);
  void erase(const ServiceKey& key);

  // Calls visit(entry) in order.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& chunk : chunks_) {
      for (const auto& entry : *chunk)
        visit(entry);
    }
  }

 private:
  // Chunks of this size are split; small enough to copy in no time, large enough to keep the
  // list of chunks short.
  static constexpr size_t kMaxChunk = 64;

  using Chunk = std::vector<ServiceEntryPtr>;

  // The chunk in which `key` is or would be.
  size_t chunk_of(const ServiceKey& key) const;

  std::vector<std::shared_ptr<const Chunk>> chunks_;  // none is empty
  size_t size_ = 0;
};

}  // namespace model
