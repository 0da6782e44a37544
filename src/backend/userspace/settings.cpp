#include "backend/userspace/settings.h"

namespace userspace {

PortalOptions Settings::portal_options() const {
  const net::IpAddr all = context.family == net::Family::V4 ? net::IpAddr() : net::IpAddr::v6({});
  return {.family = context.family, .listen = listen.is_unspecified() ? all : listen, .host = host};
}

plan::Context Settings::context_of(const model::Snapshot& snapshot) const {
  plan::Context result = context;
  result.zone = snapshot.node != nullptr ? snapshot.node->zone : std::string();
  return result;
}

}  // namespace userspace
