// Many files, one set of objects: decides which definition of an object counts, and says what
// changed since the last time.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "model/change.h"
#include "source/decode.h"
#include "source/definitions.h"

namespace source {

// An object that is defined twice; told once, as long as it stays so.
struct Duplicate {
  std::string object;  // "Service default/web"
  std::string loser_file;
  uint32_t loser_line = 0;
  std::string winner_file;
  uint32_t winner_line = 0;
};

// Keeps all objects, each in memory once. Lives on the loop thread.
//
// - The last definition wins, in the order of the names of files and of the objects in them.
// - Endpoints count only for a Service that has no EndpointSlice in any file.
// - An object that is equal to what was handed out before is no change.
//
// What was handed out is not written down, as it follows from the definitions: an update looks at
// the objects that it touches, takes in the new definitions, looks again, and tells the difference.
class Merge {
 public:
  // Objects by the name of their file.
  using Files = std::map<std::string, std::vector<Object>>;

  struct Outcome {
    std::vector<model::Change> changes;  // deletions first, then nodes, CIDRs, services, slices
    std::vector<Duplicate> duplicates;   // the new ones
  };

  // From now on these files say this; one that is gone has no objects. Costs in proportion to the
  // objects of these files, before and after, whatever there is in others.
  Outcome update(Files changed);

 private:
  // Where something that is handed out stands in a definition.
  using Place = std::variant<ServicePtr*, SlicePtr*, NodePtr*, ServiceCidrPtr*>;

  // At another line it is still the same story.
  struct SameStory {
    bool operator()(const Duplicate& a, const Duplicate& b) const;
  };

  // How some objects stand at a moment.
  struct View {
    std::vector<Place> handed_out;  // by key
    std::set<Duplicate, SameStory> duplicates;
  };

  std::vector<Key> touched(const Definitions::Files& changed) const;
  void touch_endpoints(const Definition& definition, std::vector<Key>& keys) const;
  View look_at(const std::vector<Key>& keys) const;
  void hand_out(Definition& winner, std::vector<Place>& out) const;

  static Key key_of(const Place& place);
  static std::vector<model::Change> diff(const std::vector<Place>& before,
                                         const std::vector<Place>& after);

  Definitions definitions_;
};

}  // namespace source
