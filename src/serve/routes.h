// Which page answers for which path. A page is a row.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "http/server_message.h"

namespace serve {

enum class Match { Exact, Prefix };

struct Route {
  std::string path;
  std::function<http::Answer(const http::Incoming&)> page;
  Match match = Match::Exact;  // Prefix: also for every path that begins so
};

using Routes = std::vector<Route>;

// What the first page for that path answers; 404 if there is none.
http::Answer answer(const Routes& routes, const http::Incoming& incoming);

}  // namespace serve
