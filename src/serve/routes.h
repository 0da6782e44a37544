// Which page answers for which path. A page is a row.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "http/server_message.h"

namespace serve {

struct Route {
  std::string path;  // exact
  std::function<http::Answer(const http::Incoming&)> page;
};

using Routes = std::vector<Route>;

// What the page of that path answers; 404 if there is none.
http::Answer answer(const Routes& routes, const http::Incoming& incoming);

}  // namespace serve
