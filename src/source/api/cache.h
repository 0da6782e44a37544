// Which objects of one resource the server has, so that events and whole lists become changes.
//
// Keeps names, not objects: those are in the model. Pure; lives on the loop thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "model/change.h"
#include "source/api/wire.h"

namespace source::api {

class Cache {
 public:
  explicit Cache(Resource resource) : resource_(resource) {}

  // Added, Modified or Deleted; others have nothing to say. Appends the changes: none if the object is not
  // for us and never was; its end if it is no more; the end of the old one and the new one if a slice has
  // moved to another Service.
  void apply(Event event, std::vector<model::Change>& out);

  // The server has exactly these. Appends a change for each, and the end of every one that is gone.
  void replace(std::vector<Item> items, std::vector<model::Change>& out);

  size_t size() const { return known_.size(); }

 private:
  struct Known {
    std::string service;  // that a slice belongs to; empty for other resources
    uint64_t list = 0;    // the last list that had the object, by number
  };

  void put(Item item, std::vector<model::Change>& out);
  // The end of an object, as the model files it.
  model::Change gone(std::string_view key, const Known& known) const;

  Resource resource_;
  uint64_t lists_ = 0;
  // By "namespace/name"; "/name" where there are no namespaces.
  boost::unordered_flat_map<std::string, Known> known_;
};

}  // namespace source::api
