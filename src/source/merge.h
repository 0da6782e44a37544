// Many files, one set of objects: decides which definition of an object counts, and says what
// changed since the last time.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "model/change.h"
#include "source/decode.h"

namespace source {

// The objects of one file; the name is for messages.
struct FileObjects {
  std::string name;
  std::vector<Object> objects;
};

// An object that is defined twice; told once, as long as it stays so.
struct Duplicate {
  std::string object;  // "Service default/web"
  std::string loser_file;
  uint32_t loser_line = 0;
  std::string winner_file;
  uint32_t winner_line = 0;
};

// Remembers what was handed out. Lives on the loop thread.
//
// - The last definition wins, in the order of files and of the objects in them.
// - Endpoints count only for a Service that has no EndpointSlice in any file.
// - An object that is equal to what was handed out before is no change.
class Merge {
 public:
  struct Outcome {
    std::vector<model::Change> changes;  // deletions first, then nodes, CIDRs, services, slices
    std::vector<Duplicate> duplicates;   // the new ones
  };

  // Objects in `files` that did not change are replaced by the very ones handed out before, so
  // that they are in memory once.
  Outcome update(const std::vector<FileObjects*>& files);

  // What a change is about. A slice has two names: as a definition it is namespace and name; as
  // something handed out its service is part of it, as that is how the model files it.
  struct Key {
    enum class Kind : uint8_t { Node, ServiceCidr, Service, Slice, Endpoints };
    Kind kind = Kind::Node;
    std::string ns;
    std::string name;
    std::string service = {};

    auto operator<=>(const Key&) const = default;
  };

 private:
  using Held =
      std::variant<std::shared_ptr<const model::Service>,
                   std::shared_ptr<const model::EndpointSlice>, std::shared_ptr<const model::Node>,
                   std::shared_ptr<const model::ServiceCidr>>;
  struct Definition {
    const std::string* file = nullptr;
    Object* object = nullptr;
  };
  // What should be handed out, and where it came from (nullptr: from Endpoints).
  struct Wanted {
    Held held;
    Object* origin = nullptr;
  };

  std::map<Key, Definition> winners(const std::vector<FileObjects*>& files,
                                    std::vector<Duplicate>& news);
  static std::map<Key, Wanted> wanted(const std::map<Key, Definition>& winners);

  std::map<Key, Held> handed_out_;
  std::set<std::string> told_duplicates_;
};

}  // namespace source
