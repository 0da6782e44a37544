// All objects of all files, found by what they define. Merge decides with it what counts.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <variant>
#include <vector>

#include "source/decode.h"

namespace source {

using ServicePtr = std::shared_ptr<const model::Service>;
using SlicePtr = std::shared_ptr<const model::EndpointSlice>;
using NodePtr = std::shared_ptr<const model::Node>;
using ServiceCidrPtr = std::shared_ptr<const model::ServiceCidr>;

// What a definition or a change is about; the texts stand in the object itself. A slice has two
// names: as a definition it is namespace and name; as something handed out its service is part of
// it, as that is how the model files it.
struct Key {
  enum class Kind : uint8_t { Node, ServiceCidr, Service, Slice, Endpoints };
  Kind kind = Kind::Node;
  std::string_view ns;
  std::string_view name;
  std::string_view service = {};

  // "Service default/web"
  std::string str() const;
  auto operator<=>(const Key&) const = default;
};

// An object in a file; smaller than Object, as there are many.
struct Definition {
  std::variant<ServicePtr, SlicePtr, NodePtr, ServiceCidrPtr, std::unique_ptr<Endpoints>> object;
  const std::string* file = nullptr;  // while it is in Definitions
  uint32_t line = 0;

  Key key() const;
};

class Definitions {
 public:
  // By the name of the file. A Definition stays at its address as long as its file is not swapped.
  using Files = std::map<std::string, std::vector<Definition>>;

  // The files as they are now; those without definitions are left out.
  const Files& files() const { return files_; }

  bool contains(const Key& key) const { return by_key_.contains(key); }

  // Those of one object, in the order of files and of places in them: the last one counts. In
  // place of what is in `out`.
  void find(const Key& key, std::vector<Definition*>& out) const;

  // Whether a slice that counts belongs to it.
  bool has_slices(const model::ServiceKey& service) const { return slices_.contains(service); }

  // Exchanges the definitions of these files for others.
  // REQUIRES: `keys` has what they define, before and after, each once.
  void swap(Files& files, const std::vector<Key>& keys);

 private:
  // Hash and equality. Definitions are their own keys, so that no name is in memory twice.
  struct ByKey {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard's name
    size_t operator()(const Key& key) const;
    size_t operator()(const Definition* definition) const { return (*this)(definition->key()); }
    bool operator()(const Key& a, const Definition* b) const { return a == b->key(); }
    bool operator()(const Definition* a, const Key& b) const { return a->key() == b; }
    bool operator()(const Definition* a, const Definition* b) const { return a->key() == b->key(); }
  };
  // Order.
  struct ByService {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard's name
    bool operator()(const Definition* a, const model::ServiceKey& b) const;
    bool operator()(const model::ServiceKey& a, const Definition* b) const;
    bool operator()(const Definition* a, const Definition* b) const;
  };

  // Null if there is none.
  Definition* last(const Key& key) const;
  void erase(const Key& key, const Files& files);

  Files files_;
  std::unordered_multiset<Definition*, ByKey, ByKey> by_key_;
  std::set<const Definition*, ByService> slices_;  // those that count
};

}  // namespace source
