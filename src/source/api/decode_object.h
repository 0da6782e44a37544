// The protobuf messages of the single kinds, each to its object of the model; only decode_proto.cpp
// calls them. They do what source/decode_object.h does for manifests, and say the same if something is wrong.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "model/objects.h"
#include "source/api/decode_place.h"

namespace source::api {

// metav1.ObjectMeta; all views point into the message.
struct Meta {
  std::string_view message;
  std::string_view name;
  std::string_view ns;
  std::string_view resource_version;
  bool deleting = false;

  std::optional<std::string_view> label(std::string_view key) const;
  std::optional<std::string_view> annotation(std::string_view key) const;
};

// Of any object: it is the first field of all of them.
Meta read_meta(std::string_view object);

// Null: the object is not used; the reason, if it needs one, is in the complaint of `root`.
// The name and namespace are checked, but the caller has the last word on fatal problems.
std::shared_ptr<const model::Service> decode_service(std::string_view object, const Meta& meta,
                                                     model::ServiceKey key, const Place& root);
std::shared_ptr<const model::EndpointSlice> decode_slice(std::string_view object, const Meta& meta,
                                                         model::ServiceKey key, const Place& root);
std::shared_ptr<const model::Node> decode_node(std::string_view object, const Meta& meta,
                                               std::string name, const Place& root);
std::shared_ptr<const model::ServiceCidr> decode_service_cidr(std::string_view object,
                                                              std::string name, const Place& root);

}  // namespace source::api
