// Objects for tests, written as a reader thinks of them:
//
//   service("default/web").cluster_ip("10.96.0.1").port("http", 80).local_external()
//   slice("default/web", "web-1").port("http", 8080).ready("10.244.1.2", "node1")
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "model/objects.h"
#include "model/service_map.h"
#include "net/ip.h"

namespace build {

inline model::ServiceKey key(std::string_view text) {
  const size_t slash = text.find('/');
  return {std::string(text.substr(0, slash)), std::string(text.substr(slash + 1))};
}
inline net::IpAddr ip(std::string_view text) { return net::IpAddr::parse(text).value(); }
inline net::Cidr cidr(std::string_view text) { return net::Cidr::parse(text).value(); }

class service {
 public:
  explicit service(std::string_view name) { object_.key = key(name); }

  service& cluster_ip(std::string_view text) {
    object_.cluster_ips[static_cast<size_t>(ip(text).family())] = ip(text);
    return *this;
  }
  service& port(std::string name, uint16_t number, uint16_t node_port = 0,
                net::Protocol protocol = net::Protocol::Tcp) {
    object_.ports.push_back({std::move(name), protocol, number, node_port});
    return *this;
  }
  service& type(model::ServiceType type) {
    object_.type = type;
    return *this;
  }
  service& node_port_type() { return type(model::ServiceType::NodePort); }
  service& load_balancer(std::string_view vip) {
    object_.load_balancer_ips.push_back(ip(vip));
    return type(model::ServiceType::LoadBalancer);
  }
  service& external_ip(std::string_view text) {
    object_.external_ips.push_back(ip(text));
    return *this;
  }
  service& source_range(std::string_view text) {
    object_.source_ranges.push_back(cidr(text));
    return *this;
  }
  service& health_check(uint16_t port) {
    object_.health_check_node_port = port;
    return *this;
  }
  service& affinity(uint32_t seconds) {
    object_.affinity_timeout_s = seconds;
    return *this;
  }
  service& local_external() {
    object_.external_policy_local = true;
    return *this;
  }
  service& local_internal() {
    object_.internal_policy_local = true;
    return *this;
  }
  service& skipped(model::SkipReason reason) {
    object_.skip = reason;
    return *this;
  }

  const model::Service& value() const { return object_; }
  std::shared_ptr<const model::Service> ptr() const {
    return std::make_shared<const model::Service>(object_);
  }

 private:
  model::Service object_;
};

class slice {
 public:
  slice(std::string_view service_name, std::string name, net::Family family = net::Family::V4) {
    object_.service = key(service_name);
    object_.name = std::move(name);
    object_.family = family;
  }

  slice& port(std::string name, uint16_t number, net::Protocol protocol = net::Protocol::Tcp) {
    object_.ports.push_back({std::move(name), protocol, number});
    return *this;
  }
  slice& ready(std::string_view address, std::string_view node = "") {
    return endpoint(address, node, true, true, false);
  }
  slice& not_ready(std::string_view address, std::string_view node = "") {
    return endpoint(address, node, false, false, false);
  }
  // Terminating but still serving.
  slice& draining(std::string_view address, std::string_view node = "") {
    return endpoint(address, node, false, true, true);
  }
  slice& endpoint(std::string_view address, std::string_view node, bool ready, bool serving,
                  bool terminating) {
    object_.endpoints.push_back({ip(address), ready, serving, terminating, intern(node)});
    return *this;
  }
  // Of the endpoint that was added last.
  slice& for_zone(std::string_view zone) { return hint(model::Hint::Kind::Zone, zone); }
  slice& for_node(std::string_view node) { return hint(model::Hint::Kind::Node, node); }

  const model::EndpointSlice& value() const { return object_; }
  std::shared_ptr<const model::EndpointSlice> ptr() const {
    return std::make_shared<const model::EndpointSlice>(object_);
  }

 private:
  slice& hint(model::Hint::Kind kind, std::string_view name) {
    object_.hints.push_back(
        {static_cast<uint32_t>(object_.endpoints.size() - 1), kind, intern(name)});
    return *this;
  }

  model::TextRef intern(std::string_view value) {
    const auto offset = static_cast<uint32_t>(object_.text.size());
    object_.text += value;
    return {value.empty() ? 0 : offset, static_cast<uint32_t>(value.size())};
  }

  model::EndpointSlice object_;
};

template <typename... Slices>
model::ServiceEntry entry(const service& object, const Slices&... slices) {
  return {object.value().key, object.ptr(), {slices.ptr()...}};
}

}  // namespace build
