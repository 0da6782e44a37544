// A manifest document to the objects of the model.
//
// Does what the API server does for everybody else: unpacks lists, fills in defaults, and checks
// each field that may get into a rule. Pure; from any thread.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "codec/value.h"
#include "model/objects.h"
#include "source/problem.h"

namespace source {

// A core/v1 Endpoints object, already cut into slices: one for each subset and family. They have
// names that do not change as long as the subsets keep their order ("web-endpoints-0-ipv4").
struct Endpoints {
  model::ServiceKey key;
  std::vector<std::shared_ptr<const model::EndpointSlice>> slices;
};

struct Object {
  std::variant<std::shared_ptr<const model::Service>, std::shared_ptr<const model::EndpointSlice>,
               std::shared_ptr<const model::Node>, std::shared_ptr<const model::ServiceCidr>,
               Endpoints>
      any;
  codec::Position at;
};

struct Decoded {
  std::vector<Object> objects;
  std::vector<Problem> problems;
  std::vector<std::string> skipped_kinds;  // "apps/v1 Deployment", each once
};

// Appends what the document says. An object with a fatal problem is left out; one that kube-proxy
// would not be told about (labels, address types) is left out with at most a warning.
void decode(const codec::Value& document, Decoded& out);

}  // namespace source
