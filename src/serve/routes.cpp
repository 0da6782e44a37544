#include "serve/routes.h"

#include <algorithm>

namespace serve {

http::Answer answer(const Routes& routes, const http::Incoming& incoming) {
  const auto found = std::ranges::find(routes, incoming.path, &Route::path);
  return found == routes.end() ? http::not_found() : found->page(incoming);
}

}  // namespace serve
