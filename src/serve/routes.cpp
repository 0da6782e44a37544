#include "serve/routes.h"

#include <algorithm>

namespace serve {

http::Answer answer(const Routes& routes, const http::Incoming& incoming) {
  const auto found = std::ranges::find_if(routes, [&](const Route& route) {
    return route.match == Match::Exact ? incoming.path == route.path
                                       : incoming.path.starts_with(route.path);
  });
  return found == routes.end() ? http::not_found() : found->page(incoming);
}

}  // namespace serve
