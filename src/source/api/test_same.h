// Whether two events say the same, objects included; for tests.
#pragma once

#include <memory>
#include <variant>

#include "source/api/wire.h"

namespace source::api {

inline bool same(const Item::Object& a, const Item::Object& b) {
  return std::visit(
      []<typename A, typename B>(const A& x, const B& y) {
        if constexpr (!std::is_same_v<A, B>) {
          return false;
        } else if constexpr (std::is_same_v<A, std::monostate>) {
          return true;
        } else {
          return *x == *y;
        }
      },
      a, b);
}

inline bool same(const Item& a, const Item& b) {
  return a.ns == b.ns && a.name == b.name && a.resource_version == b.resource_version &&
         a.problem == b.problem && same(a.object, b.object);
}

inline bool same(const Status& a, const Status& b) {
  return a.code == b.code && a.reason == b.reason && a.message == b.message &&
         a.retry_after_s == b.retry_after_s &&
         a.resource_version_too_large == b.resource_version_too_large;
}

inline bool same(const Event& a, const Event& b) {
  return a.type == b.type && a.initial_events_end == b.initial_events_end && same(a.item, b.item) &&
         same(a.status, b.status);
}

}  // namespace source::api
