#include "source/api/queries.h"

#include <map>

#include "http/url.h"

namespace source::api {
namespace {

// Parameters go out in the order of their names, as kube-proxy sends them.
using Parameters = std::map<std::string_view, std::string>;

std::string join(const Parameters& parameters) {
  std::string out;
  for (const auto& [name, value] : parameters) {
    if (!out.empty()) out += '&';
    ((out += name) += '=') += http::escape_query(value);
  }
  return out;
}

Parameters selectors(const Query& query) {
  switch (query.resource) {
    case Resource::Services:
      return {{"labelSelector", "!service.kubernetes.io/service-proxy-name"},
              {"fieldSelector", "spec.clusterIP!=None"}};
    case Resource::EndpointSlices:
      return {{"labelSelector", "!service.kubernetes.io/headless"}};
    case Resource::Nodes:
      return {{"fieldSelector", "metadata.name=" + query.node_name}};
    case Resource::ServiceCidrs:
      break;
  }
  return {};
}

Parameters watch_parameters(const Query& query, std::string_view version,
                            std::chrono::seconds lasts) {
  Parameters all = selectors(query);
  all["allowWatchBookmarks"] = "true";
  if (!version.empty()) all["resourceVersion"] = version;
  all["timeout"] =
      std::to_string(lasts.count() / 60) + "m" + std::to_string(lasts.count() % 60) + "s";
  all["timeoutSeconds"] = std::to_string(lasts.count());
  all["watch"] = "true";
  return all;
}

}  // namespace

std::string_view Query::path() const {
  switch (resource) {
    case Resource::Services:
      return "/api/v1/services";
    case Resource::EndpointSlices:
      return "/apis/discovery.k8s.io/v1/endpointslices";
    case Resource::ServiceCidrs:
      return "/apis/networking.k8s.io/v1/servicecidrs";
    case Resource::Nodes:
      return "/api/v1/nodes";
  }
  return {};
}

std::string_view Query::type_name() const {
  switch (resource) {
    case Resource::Services:
      return "*v1.Service";
    case Resource::EndpointSlices:
      return "*v1.EndpointSlice";
    case Resource::ServiceCidrs:
      return "*v1.ServiceCIDR";
    case Resource::Nodes:
      return "*v1.Node";
  }
  return {};
}

std::string Query::state_and_watch(std::string_view version, std::chrono::seconds lasts) const {
  Parameters all = watch_parameters(*this, version, lasts);
  all["resourceVersionMatch"] = "NotOlderThan";
  all["sendInitialEvents"] = "true";
  return join(all);
}

std::string Query::watch(std::string_view version, std::chrono::seconds lasts) const {
  return join(watch_parameters(*this, version, lasts));
}

std::string Query::list(std::string_view version, int limit) const {
  Parameters all = selectors(*this);
  if (limit > 0) all["limit"] = std::to_string(limit);
  if (!version.empty()) all["resourceVersion"] = version;
  return join(all);
}

std::string Query::next_page(std::string_view continue_token, int limit) const {
  Parameters all = selectors(*this);
  all["continue"] = continue_token;
  all["limit"] = std::to_string(limit);
  return join(all);
}

}  // namespace source::api
