// What all Services have on this node, in one family: fronts, endpoints, claimed ports, and lines in chains.
//
// Lives on the sync thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/iptables/skeleton.h"
#include "backend/userspace/adopt.h"
#include "backend/userspace/claims.h"
#include "backend/userspace/complaints.h"
#include "backend/userspace/endpoints.h"
#include "backend/userspace/flows.h"
#include "backend/userspace/fronts.h"
#include "backend/userspace/locality.h"
#include "backend/userspace/portals.h"
#include "backend/userspace/settings.h"
#include "relay/engine.h"

namespace userspace {

class Ledger {
 public:
  Ledger(Settings settings, std::shared_ptr<relay::Engine> engine);
  ~Ledger();

  // New fronts prefer the ports that former rules lead to. An empty value: no more.
  void adopt(AdoptedPorts ports);
  // The addresses of this node, sorted. Returns whether they are others than before: then claims have to be settled
  // for all Services.
  bool set_addresses(std::vector<net::IpAddr> addresses);

  std::set<model::ServiceKey> services() const;
  // Those for which something could not be done: worth another try.
  const std::set<model::ServiceKey>& unfinished() const { return unfinished_; }
  // Fronts with clients who wait for descriptors, of both families.
  size_t waiting_fronts() const { return engine_->totals().waiting_fronts; }

  // Makes the Services be as the plans say; one without ports goes. What goes works until close_retired(), as rules may
  // lead there. What could not be done is in the report.
  void update(const std::vector<plan::ServicePlan>& plans, backend::SyncReport& report);
  // Returns whether there was something: ports are free again.
  bool close_retired() { return fronts_.close_retired(); }

  // The chains with the rules of all Services.
  std::vector<iptables::FixedChain> chains() const;
  // Have they changed since this was last asked?
  bool take_rules_changed() { return std::exchange(rules_changed_, false); }

  // Have UDP portals changed since forget_gone_portals()?
  bool udp_changed() const { return udp_changed_; }
  PortalFlows flows() const;
  void forget_gone_portals();

  size_t endpoints() const { return endpoints_; }
  std::vector<backend::PortConnections> count_connections() const;
  // Forgets what has become stale by itself. Returns whether to call again some time.
  bool forget(relay::Time now);

 private:
  struct Port {
    std::string name;    // "namespace/name:port"
    std::string number;  // for those who count connections and find no name
    net::Protocol protocol = net::Protocol::Tcp;
    std::array<OpenFront, kWays.size()> fronts;  // by Way
    Endpoints endpoints;
    std::vector<Portal> wanted;   // that lead to these fronts
    std::vector<Portal> portals;  // those that have rules
    uint64_t connections = 0;     // of fronts that are gone

    OpenFront& front(Way way) { return fronts[static_cast<size_t>(way)]; }
    ProxyPorts proxy_ports() const;
    Claims::Owner owner() const { return {name, protocol}; }
  };
  struct Service {
    // By name and protocol, the order of plans.
    using PortKey = std::pair<std::string, net::Protocol>;
    std::map<PortKey, Port> ports;
    PortalLines lines;
    size_t endpoints = 0;  // of all its ports, ready or not
  };

  void update_service(const plan::ServicePlan& plan, backend::SyncReport& report);
  void update_port(Port& port, const plan::ServicePlan& service, const plan::PortPlan& plan,
                   backend::SyncReport& report);
  base::Result<> update_front(Port& port, Way way, const Treatment& treatment,
                              const relay::Offer& offer, uint16_t preferred);
  void retire_front(Port& port, Way way);
  void remove_port(Port& port);

  // The place that has to be kept for the portal; none if it is not on this node.
  std::optional<Place> place_of(const Portal& portal) const;
  void release_claims(Port& port);
  // Those of the wanted portals whose places could be had.
  std::vector<Portal> claim(const model::ServiceKey& service, const Port& port,
                            backend::SyncReport& report);
  // The engine has that many descriptors less.
  void account_for_claims();
  void set_portals(Port& port, std::vector<Portal> portals);
  void render(Service& service);
  Endpoints::Farewell farewell() const;

  const Settings settings_;
  const PortalOptions options_;
  std::shared_ptr<relay::Engine> engine_;
  std::mt19937 random_{std::random_device{}()};
  std::shared_ptr<Locality> locality_;  // fronts have it, too
  Fronts fronts_;
  Claims claims_;
  size_t claims_accounted_ = 0;
  Complaints complaints_;
  AdoptedPorts adopted_;
  std::vector<net::IpAddr> addresses_;

  std::map<model::ServiceKey, Service> services_;
  std::set<model::ServiceKey> unfinished_;
  size_t endpoints_ = 0;  // sum over services
  bool rules_changed_ = false;
  bool udp_changed_ = false;
  std::vector<Portal> udp_gone_;
  bool some_left_ = false;  // endpoints, during an update
};

}  // namespace userspace
