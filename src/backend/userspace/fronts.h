// The fronts of one family: sockets on proxy ports, which the engine serves. Lives on the sync thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "backend/userspace/ports.h"
#include "backend/userspace/sockets.h"
#include "backend/userspace/ways.h"
#include "base/result.h"
#include "relay/engine.h"

namespace userspace {

// A front that is open, or none.
struct OpenFront {
  relay::FrontPtr front;  // null: none
  Place place;
  std::optional<Treatment> treatment;  // in force
  relay::Offer offer;                  // made by the front

  bool refuses() const { return treatment && treatment->refuse; }
  uint16_t port() const { return front != nullptr ? place.port : uint16_t{0}; }
};

class Fronts {
 public:
  // `listen` is an address of the family, or its unspecified one. `is_local` is for all of them.
  struct Settings {
    net::IpAddr listen;
    PortRange ports;
    std::function<bool(const net::IpAddr&)> is_local;
  };
  Fronts(Settings settings, std::shared_ptr<relay::Engine> engine, std::mt19937 random);
  ~Fronts();

  // On the preferred port (0: none) if that is possible. Nobody is served before the first adjust().
  base::Result<OpenFront> open(const std::string& name, net::Protocol protocol, uint16_t preferred);
  // Makes it treat clients so. Exists: somebody else has got hold of its port. If the gate is too large for the kernel
  // (Invalid), nobody is let in.
  base::Result<> adjust(OpenFront& front, const Treatment& treatment, const relay::Offer& offer);

  // It goes on until close_retired(), as rules still lead to it.
  void retire(OpenFront front);
  // Returns whether there was one.
  bool close_retired();

  // These ports are for those who prefer them.
  void reserve(std::set<uint16_t> ports) { ports_.reserve(std::move(ports)); }

 private:
  base::Result<base::Fd> bind(net::Protocol protocol, uint16_t preferred, Place& place);
  relay::FrontPtr make_front(const std::string& name, const Place& place, base::Fd socket) const;
  base::Result<> set_gate(const relay::Gate& gate, int socket) const;
  base::Result<> let_in(OpenFront& front, const Treatment& treatment) const;
  base::Result<> replace(OpenFront& front, const Treatment& treatment, const relay::Offer& offer);

  Settings settings_;
  std::shared_ptr<relay::Engine> engine_;
  PortPool ports_;
  std::vector<OpenFront> retired_;
};

}  // namespace userspace
