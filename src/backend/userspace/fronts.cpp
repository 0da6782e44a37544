#include "backend/userspace/fronts.h"

#include <utility>

#include "relay/gate.h"

namespace userspace {
namespace {

using base::ErrorCode;
using base::Result;

// A port that was free a moment ago may be taken: by a connection of this machine, for one.
constexpr int kPickAttempts = 16;

const relay::Gate kClosed{{relay::Sources{}}};

bool same(const relay::Offer& a, const relay::Offer& b) {
  return a.balancer == b.balancer && a.for_local == b.for_local &&
         a.proxy_protocol == b.proxy_protocol;
}

}  // namespace

Fronts::Fronts(Settings settings, std::shared_ptr<relay::Engine> engine, std::mt19937 random)
    : settings_(std::move(settings)), engine_(std::move(engine)), ports_(settings_.ports, random) {}

Fronts::~Fronts() { close_retired(); }

Result<base::Fd> Fronts::bind(net::Protocol protocol, uint16_t preferred, Place& place) {
  base::Fd socket;
  const auto try_port = [&](uint16_t port) -> Result<uint16_t> {
    place = {.protocol = protocol, .ip = settings_.listen, .port = port};
    socket = TRY(bind_front(place));
    return port;
  };
  const auto try_any = [&]() -> Result<uint16_t> {
    for (int attempt = 1;; ++attempt) {
      const auto port = try_port(TRY(pick_port(protocol, settings_.listen)));
      if (port || port.error().code != ErrorCode::Exists || attempt == kPickAttempts) return port;
    }
  };
  TRY(ports_.take(preferred,
                  [&](uint16_t port) { return port != 0 ? try_port(port) : try_any(); }));
  return socket;
}

relay::FrontPtr Fronts::make_front(const std::string& name, const Place& place,
                                   base::Fd socket) const {
  return std::make_shared<relay::Front>(relay::Front::Settings{.name = name,
                                                               .family = place.ip.family(),
                                                               .protocol = place.protocol,
                                                               .socket = std::move(socket),
                                                               .is_local = settings_.is_local});
}

Result<OpenFront> Fronts::open(const std::string& name, net::Protocol protocol,
                               uint16_t preferred) {
  OpenFront opened;
  base::Fd socket = TRY(bind(protocol, preferred, opened.place));
  opened.front = make_front(name, opened.place, std::move(socket));
  if (auto done = engine_->open(opened.front); !done) {
    retire(std::move(opened));
    return std::unexpected(std::move(done).error());
  }
  return opened;
}

Result<> Fronts::adjust(OpenFront& front, const Treatment& treatment, const relay::Offer& offer) {
  const bool udp = front.place.protocol == net::Protocol::Udp;
  if (udp && front.refuses() && !treatment.refuse) return replace(front, treatment, offer);
  if (treatment.refuse && !front.refuses()) TRY(refuse(front.front->socket(), front.place));
  if (!same(front.offer, offer)) front.front->offer(offer);
  front.offer = offer;
  if (!treatment.refuse && front.treatment != treatment) TRY(let_in(front, treatment));
  front.treatment = treatment;
  return {};
}

Result<> Fronts::set_gate(const relay::Gate& gate, int socket) const {
  const net::Family family = settings_.listen.family();
  auto done = relay::apply(gate, family, socket);
  if (!done) TRY(relay::apply(kClosed, family, socket));
  return done;
}

Result<> Fronts::let_in(OpenFront& front, const Treatment& treatment) const {
  const auto gate = set_gate(treatment.gate, front.front->socket());
  TRY(serve(front.front->socket(), front.place));
  return gate;
}

Result<> Fronts::replace(OpenFront& front, const Treatment& treatment, const relay::Offer& offer) {
  base::Fd socket = TRY(replace_refusing(front.front->socket(), front.place, [&](int fresh) {
    return set_gate(treatment.gate, fresh);
  }));
  const relay::Front& before = *front.front;
  auto fresh = make_front(before.settings().name, front.place, std::move(socket));
  fresh->counters().accepted = before.counters().accepted.load();
  fresh->offer(offer);
  TRY(engine_->open(fresh));
  engine_->close({front.front});
  front = {.front = std::move(fresh), .place = front.place, .treatment = treatment, .offer = offer};
  return {};
}

void Fronts::retire(OpenFront front) {
  if (front.front != nullptr) retired_.push_back(std::move(front));
}

bool Fronts::close_retired() {
  if (retired_.empty()) return false;
  std::vector<relay::FrontPtr> fronts;
  for (const auto& one : retired_)
    fronts.push_back(one.front);
  engine_->close(fronts);
  for (const auto& one : retired_)
    ports_.give_back(one.place.port);
  retired_.clear();
  return true;
}

}  // namespace userspace
