// What is asked of the API server for each resource. Pure.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "source/api/wire.h"

namespace source::api {

struct Query {
  Resource resource = Resource::Services;
  std::string node_name{};  // of Nodes only this one

  // "/api/v1/services"
  std::string_view path() const;
  // "*v1.Service", as log lines name it
  std::string_view type_name() const;

  // The state as a stream, at `version` or newer (empty: the newest), then every change.
  std::string state_and_watch(std::string_view version, std::chrono::seconds lasts) const;
  // Every change after `version`.
  std::string watch(std::string_view version, std::chrono::seconds lasts) const;
  // The first page of a list; limit 0: all in one.
  std::string list(std::string_view version, int limit) const;
  std::string next_page(std::string_view continue_token, int limit) const;
};

}  // namespace source::api
