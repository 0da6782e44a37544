#include "backend/userspace/ledger.h"

#include <algorithm>

namespace userspace {
namespace {

using base::ErrorCode;
using base::Result;
using relay::Clock;

constexpr std::string_view kNoSctp = "SCTP is not supported for user space proxy";

bool contains(const std::vector<Portal>& portals, const Portal& portal) {
  return std::ranges::find(portals, portal) != portals.end();
}

bool contains(const std::vector<Way>& ways, Way way) {
  return std::ranges::find(ways, way) != ways.end();
}

// For Complaints.
std::string about(Way way) { return "front " + std::to_string(static_cast<int>(way)); }

}  // namespace

ProxyPorts Ledger::Port::proxy_ports() const {
  ProxyPorts ports{};
  for (size_t i = 0; i < fronts.size(); ++i)
    ports[i] = fronts[i].port();
  return ports;
}

Ledger::Ledger(Settings settings, std::shared_ptr<relay::Engine> engine)
    : settings_(std::move(settings)),
      options_(settings_.portal_options()),
      engine_(std::move(engine)),
      locality_(std::make_shared<Locality>(settings_.local_traffic)),
      fronts_({.listen = options_.listen,
               .ports = settings_.ports,
               .is_local = [who = locality_](const net::IpAddr& ip) { return who->contains(ip); }},
              engine_, std::mt19937(random_())) {}

Ledger::~Ledger() {
  engine_->give_descriptors(claims_accounted_);
  for (auto& [_, service] : services_) {
    for (auto& [key, port] : service.ports) {
      for (const Way way : kWays)
        retire_front(port, way);
    }
  }
}

void Ledger::adopt(AdoptedPorts ports) {
  fronts_.reserve(ports.all());
  adopted_ = std::move(ports);
}

bool Ledger::set_addresses(std::vector<net::IpAddr> addresses) {
  if (addresses == addresses_) return false;
  addresses_ = std::move(addresses);
  locality_->set_addresses(addresses_);
  return true;
}

std::set<model::ServiceKey> Ledger::services() const {
  std::set<model::ServiceKey> keys;
  for (const auto& [key, _] : services_)
    keys.insert(key);
  return keys;
}

void Ledger::update(const std::vector<plan::ServicePlan>& plans, backend::SyncReport& report) {
  some_left_ = false;
  for (const auto& plan : plans)
    update_service(plan, report);
  if (some_left_ && settings_.drain.count() > 0) engine_->expect_deadline(farewell().deadline());
  // First what is given up, so that it can move from one Service to another.
  for (const auto& plan : plans) {
    for (auto& [_, port] : services_[plan.key].ports)
      release_claims(port);
  }
  for (const auto& plan : plans) {
    Service& service = services_[plan.key];
    for (auto& [_, port] : service.ports)
      set_portals(port, claim(plan.key, port, report));
    render(service);
    if (plan.ports.empty()) services_.erase(plan.key);
  }
  account_for_claims();
}

void Ledger::update_service(const plan::ServicePlan& plan, backend::SyncReport& report) {
  Service& service = services_[plan.key];
  unfinished_.erase(plan.key);
  endpoints_ += plan.endpoint_count() - service.endpoints;
  service.endpoints = plan.endpoint_count();
  if (!plan.proxy_protocol_problem.empty())
    report.problems.push_back({plan.key, plan.proxy_protocol_problem});
  std::set<Service::PortKey> there;
  for (const auto& port : plan.ports) {
    if (port.protocol == net::Protocol::Sctp) {
      report.problems.push_back({plan.key, std::string(kNoSctp)});
      continue;
    }
    const Service::PortKey key{port.port_name, port.protocol};
    there.insert(key);
    update_port(service.ports[key], plan, port, report);
  }
  for (auto it = service.ports.begin(); it != service.ports.end();) {
    const auto port = it++;
    if (there.contains(port->first)) continue;
    remove_port(port->second);
    service.ports.erase(port);
  }
}

void Ledger::update_port(Port& port, const plan::ServicePlan& service, const plan::PortPlan& plan,
                         backend::SyncReport& report) {
  port.name = plan.name;
  port.number = std::to_string(plan.port);
  port.protocol = plan.protocol;
  some_left_ = port.endpoints.update(plan, farewell(), random_) || some_left_;
  const auto needed = fronts_of(plan);
  const ProxyPorts preferred = adopted_.of(plan);
  const bool tells_client = service.proxy_protocol && plan.protocol == net::Protocol::Tcp;
  for (const Way way : kWays) {
    if (!contains(needed, way)) {
      retire_front(port, way);
      continue;
    }
    const Treatment treatment = treatment_of(way, plan, settings_.local_traffic);
    const relay::Offer offer{.balancer = port.endpoints.list(treatment.list),
                             .for_local = port.endpoints.list(treatment.for_local),
                             .proxy_protocol = tells_client};
    const auto done =
        update_front(port, way, treatment, offer, preferred[static_cast<size_t>(way)]);
    if (done) {
      complaints_.settle(port.name, about(way));
    } else {
      complaints_.raise(port.name, about(way), port.name + ": " + done.error().text,
                        report.warnings);
      unfinished_.insert(service.key);
    }
  }
  port.wanted = portals_of(plan, port.proxy_ports());
}

Result<> Ledger::update_front(Port& port, Way way, const Treatment& treatment,
                              const relay::Offer& offer, uint16_t preferred) {
  OpenFront& front = port.front(way);
  if (front.front != nullptr) {
    auto done = fronts_.adjust(front, treatment, offer);
    if (done || done.error().code != ErrorCode::Exists) return done;
    // While it refused, somebody else has begun to listen on its port.
    retire_front(port, way);
  }
  front = TRY(fronts_.open(port.name, port.protocol, preferred));
  return fronts_.adjust(front, treatment, offer);
}

void Ledger::retire_front(Port& port, Way way) {
  complaints_.settle(port.name, about(way));
  OpenFront front = std::exchange(port.front(way), {});
  if (front.front == nullptr) return;
  port.connections += front.front->counters().accepted.load();
  fronts_.retire(std::move(front));
}

void Ledger::remove_port(Port& port) {
  for (const Way way : kWays)
    retire_front(port, way);
  some_left_ = port.endpoints.leave(farewell()) || some_left_;
  port.wanted.clear();
  release_claims(port);
  set_portals(port, {});
  complaints_.settle(port.name);
}

Endpoints::Farewell Ledger::farewell() const {
  return {.now = Clock::now(), .drain = settings_.drain};
}

// Claims

std::optional<Place> Ledger::place_of(const Portal& portal) const {
  if (portal.kind == Portal::Kind::NodePort) {
    const net::IpAddr all =
        options_.family == net::Family::V4 ? net::IpAddr() : net::IpAddr::v6({});
    return Place{.protocol = portal.protocol, .ip = all, .port = portal.port};
  }
  if (!std::ranges::binary_search(addresses_, portal.ip)) return std::nullopt;
  return Place{.protocol = portal.protocol, .ip = portal.ip, .port = portal.port};
}

void Ledger::release_claims(Port& port) {
  std::vector<Place> wanted;
  for (const auto& portal : port.wanted) {
    if (const auto place = place_of(portal)) wanted.push_back(*place);
  }
  claims_.keep_only(wanted, port.owner());
}

std::vector<Portal> Ledger::claim(const model::ServiceKey& service, const Port& port,
                                  backend::SyncReport& report) {
  std::vector<Portal> portals;
  for (const auto& portal : port.wanted) {
    const auto place = place_of(portal);
    const auto taken = place ? claims_.take(*place, port.owner()) : Result<>();
    if (!taken) {
      complaints_.raise(port.name, str(*place), taken.error().text, report.warnings);
      unfinished_.insert(service);
      continue;
    }
    if (place) complaints_.settle(port.name, str(*place));
    portals.push_back(portal);
  }
  return portals;
}

void Ledger::account_for_claims() {
  engine_->give_descriptors(std::exchange(claims_accounted_, claims_.size()));
  engine_->hold_descriptors(claims_accounted_);
}

// Portals and their rules

void Ledger::set_portals(Port& port, std::vector<Portal> portals) {
  if (port.portals == portals) return;
  udp_changed_ = udp_changed_ || port.protocol == net::Protocol::Udp;
  for (const auto& portal : port.portals) {
    if (port.protocol == net::Protocol::Udp && !contains(portals, portal))
      udp_gone_.push_back(portal);
  }
  port.portals = std::move(portals);
}

void Ledger::render(Service& service) {
  PortalLines lines;
  for (const auto& [_, port] : service.ports) {
    for (const auto& portal : port.portals)
      append_rules(options_, port.name, portal, lines);
  }
  if (lines == service.lines) return;
  service.lines = std::move(lines);
  rules_changed_ = true;
}

std::vector<iptables::FixedChain> Ledger::chains() const {
  auto chains = empty_chains();
  for (const auto& [_, service] : services_)
    append_lines(service.lines, chains);
  return chains;
}

PortalFlows Ledger::flows() const {
  PortalFlows flows(addresses_);
  for (const auto& [_, service] : services_) {
    for (const auto& [key, port] : service.ports) {
      for (const auto& portal : port.portals)
        flows.add_current(portal);
    }
  }
  for (const auto& portal : udp_gone_)
    flows.add_gone(portal);
  return flows;
}

void Ledger::forget_gone_portals() {
  udp_changed_ = false;
  udp_gone_.clear();
}

// Looking after them

std::vector<backend::PortConnections> Ledger::count_connections() const {
  std::vector<backend::PortConnections> counted;
  for (const auto& [service, record] : services_) {
    for (const auto& [key, port] : record.ports) {
      uint64_t total = port.connections;
      for (const auto& one : port.fronts)
        if (one.front != nullptr) total += one.front->counters().accepted.load();
      counted.push_back({.service = service,
                         .port = key.first.empty() ? port.number : key.first,
                         .protocol = port.protocol,
                         .total = total});
    }
  }
  return counted;
}

bool Ledger::forget(relay::Time now) {
  bool again = false;
  for (auto& [_, service] : services_) {
    for (auto& [key, port] : service.ports)
      again = port.endpoints.forget(now) || again;
  }
  return again;
}

}  // namespace userspace
