#include "relay/udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <list>
#include <map>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "base/check.h"
#include "relay/datagrams.h"
#include "relay/socket_address.h"

namespace relay {
namespace {

// Batches that one socket may have in a row while others wait.
constexpr int kRounds = 8;

// Endpoints that are tried for a new client, as for a TCP connection.
constexpr int kAttempts = 4;

// Who talks to a front, and which address of ours it has written to: its answers must come from there.
struct Ends {
  Peer peer;
  net::IpAddr local;

  bool operator==(const Ends&) const = default;
};

struct EndsHash {
  using is_avalanching = void;
  size_t operator()(const Ends& ends) const {
    return ip(ends.peer.ip, ip(ends.local, ends.peer.port));
  }
  IpHash ip;
};

// The endpoint, or a router before it, has answered an earlier datagram with an ICMP error; or there is no way to it.
bool is_refusal(int error) {
  return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
         error == ENOPROTOOPT || error == EACCES;
}

// Buffers, ports or descriptors: no fault of the endpoint.
bool is_shortage(int error) {
  return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == EMFILE ||
         error == ENFILE;
}

// Empty, with errno, if it cannot be.
base::Fd connected_socket(const Target& target) {
  const int domain = target.ip().family() == net::Family::V4 ? AF_INET : AF_INET6;
  base::Fd socket(::socket(domain, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return {};
  const SocketAddress address(target.ip(), target.port());
  if (::connect(socket.get(), address.get(), address.size()) == 0) return socket;
  const int error = errno;
  socket.reset();
  errno = error;
  return {};
}

}  // namespace

struct UdpRelay::State {
  struct Client;
  struct Listener;
  using Clients = std::list<Client>;

  State(Poller& with, Settings given) : poller(with), settings(std::move(given)) {}

  Client* admit(Listener& listener, const Ends& ends, const SocketAddress& address, Time now);
  Client* connect(Listener& listener, const Ends& ends, const SocketAddress& address, Time now);
  void touch(Client& client, Time now);
  void forget(Client& client);
  // Its endpoint does not want it. The client is forgotten.
  void refused(Client& client);

  Poller& poller;
  Settings settings;
  std::unique_ptr<Datagrams> datagrams;  // once there is a front
  std::map<const Front*, std::unique_ptr<Listener>> listeners;
  Clients clients;  // the one that has been silent for longest first
};

struct UdpRelay::State::Listener final : Handler {
  Listener(State& owner, FrontPtr with) : relay(owner), front(std::move(with)) {}

  void ready(uint32_t events) override;

  Ends ends(size_t index) const {
    return {relay.datagrams->peer(index).peer(), relay.datagrams->local(index)};
  }
  void forward(size_t count, Time now);
  // Datagrams first to last - 1, which are all of one client.
  void deliver(const Ends& ends, size_t first, size_t last, Time now);
  // Null: there is no endpoint for it.
  Client* client_for(const Ends& ends, size_t index, Time now);

  State& relay;
  FrontPtr front;
  boost::unordered_flat_map<Ends, Client*, EndsHash> clients;
};

struct UdpRelay::State::Client final : Handler {
  Client(State& owner, Listener& at, const Ends& between, const SocketAddress& from)
      : relay(owner), listener(at), ends(between), address(from) {}

  void ready(uint32_t events) override;

  // May it go on with its endpoint?
  bool holds();
  void answer(size_t count);

  State& relay;
  Listener& listener;
  Ends ends;
  SocketAddress address;
  base::Fd socket;
  TargetPtr target;
  std::shared_ptr<Balancer> balancer;  // that has chosen the target, or would
  uint64_t offers_made = 0;            // by the front, then
  Time last_active;
  Clients::iterator position;  // in State::clients
};

void UdpRelay::State::Listener::ready(uint32_t /*events*/) {
  for (int round = 0; round < kRounds; ++round) {
    const size_t count = relay.datagrams->receive(front->socket()).count;
    if (count > 0) forward(count, relay.settings.clock());
    if (count < Datagrams::kMost) return;
  }
}

void UdpRelay::State::Listener::forward(size_t count, Time now) {
  Ends current = ends(0);
  for (size_t first = 0, last = 1; first < count; ++last) {
    const Ends next = last < count ? ends(last) : Ends();
    if (last < count && next == current) continue;
    deliver(current, first, last, now);
    first = last;
    current = next;
  }
}

void UdpRelay::State::Listener::deliver(const Ends& ends, size_t first, size_t last, Time now) {
  bool second_chance = true;
  Client* client = client_for(ends, first, now);
  while (client != nullptr && first < last) {
    const auto done = relay.datagrams->send(client->socket.get(), first, last);
    first += done.count;
    if (first == last || is_shortage(done.error)) return;
    if (!is_refusal(done.error)) {
      ++first;  // this one cannot go; another may
      continue;
    }
    // What was refused is an earlier datagram; this one has not been sent.
    relay.refused(*client);
    client = std::exchange(second_chance, false) ? client_for(ends, first, now) : nullptr;
  }
}

UdpRelay::State::Client* UdpRelay::State::Listener::client_for(const Ends& ends, size_t index,
                                                               Time now) {
  const auto found = clients.find(ends);
  if (found != clients.end()) {
    Client* client = found->second;
    if (client->holds()) {
      relay.touch(*client, now);
      return client;
    }
    relay.forget(*client);
  }
  return relay.admit(*this, ends, relay.datagrams->peer(index), now);
}

void UdpRelay::State::Client::ready(uint32_t /*events*/) {
  for (int round = 0; round < kRounds; ++round) {
    const auto done = relay.datagrams->receive(socket.get());
    if (done.count == 0) {
      if (is_refusal(done.error)) relay.refused(*this);
      return;
    }
    relay.touch(*this, relay.settings.clock());
    answer(done.count);
    if (done.count < Datagrams::kMost) return;
  }
}

void UdpRelay::State::Client::answer(size_t count) {
  for (size_t first = 0; first < count; ++first) {
    const auto done =
        relay.datagrams->send(listener.front->socket(), first, count, address, ends.local);
    if (is_shortage(done.error)) return;
    first += done.count;  // and the next one cannot go
  }
}

bool UdpRelay::State::Client::holds() {
  if (target->gone() || !target->serving()) return false;
  const uint64_t now_made = listener.front->offers_made();
  if (now_made == offers_made) return true;
  // That the target is not offered any more concerns new clients.
  auto now_offered = listener.front->choose(ends.peer.ip).balancer;
  if (!now_offered) return false;
  balancer = std::move(now_offered);
  offers_made = now_made;
  return true;
}

UdpRelay::State::Client* UdpRelay::State::admit(Listener& listener, const Ends& ends,
                                                const SocketAddress& address, Time now) {
  Front::Counters& counters = listener.front->counters();
  counters.accepted.fetch_add(1, std::memory_order_relaxed);
  if (settings.take_descriptor()) {
    Client* client = connect(listener, ends, address, now);
    if (client != nullptr) return client;
    settings.give_descriptor();
  }
  counters.failed.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

UdpRelay::State::Client* UdpRelay::State::connect(Listener& listener, const Ends& ends,
                                                  const SocketAddress& address, Time now) {
  Client client(*this, listener, ends, address);
  client.last_active = now;
  client.offers_made = listener.front->offers_made();
  client.balancer = listener.front->choose(ends.peer.ip).balancer;
  if (!client.balancer) return nullptr;
  for (int attempt = 0; !client.socket && attempt < kAttempts; ++attempt) {
    client.target = client.balancer->next(ends.peer.ip, attempt > 0, now);
    if (!client.target) return nullptr;
    if (attempt > 0) listener.front->counters().retried.fetch_add(1, std::memory_order_relaxed);
    client.socket = connected_socket(*client.target);
    if (!client.socket && is_shortage(errno)) return nullptr;
  }
  if (!client.socket) return nullptr;
  clients.push_back(std::move(client));
  Client& added = clients.back();
  added.position = std::prev(clients.end());
  if (!poller.add(added.socket.get(), EPOLLIN, added)) {
    clients.pop_back();
    return nullptr;
  }
  listener.clients.emplace(ends, &added);
  return &added;
}

void UdpRelay::State::touch(Client& client, Time now) {
  client.last_active = now;
  clients.splice(clients.end(), clients, client.position);
}

void UdpRelay::State::forget(Client& client) {
  poller.remove(client.socket.get(), client);
  client.listener.clients.erase(client.ends);
  clients.erase(client.position);
  settings.give_descriptor();
}

void UdpRelay::State::refused(Client& client) {
  client.balancer->does_not_answer(client.target, client.ends.peer.ip);
  forget(client);
}

UdpRelay::UdpRelay(Poller& poller, Settings settings)
    : state_(std::make_unique<State>(poller, std::move(settings))) {}

UdpRelay::~UdpRelay() {
  while (!state_->listeners.empty())
    close(state_->listeners.begin()->second->front);
}

base::Result<> UdpRelay::open(const FrontPtr& front) {
  CHECK(front->settings().protocol == net::Protocol::Udp);
  TRY(Datagrams::ask_for_local_address(front->socket(), front->settings().family));
  if (!state_->datagrams) state_->datagrams = std::make_unique<Datagrams>();
  auto listener = std::make_unique<State::Listener>(*state_, front);
  TRY(state_->poller.add(front->socket(), EPOLLIN, *listener));
  CHECK(state_->listeners.emplace(front.get(), std::move(listener)).second);
  return {};
}

void UdpRelay::close(const FrontPtr& front) {
  const auto entry = state_->listeners.find(front.get());
  if (entry == state_->listeners.end()) return;
  State::Listener& listener = *entry->second;
  state_->poller.remove(front->socket(), listener);
  std::vector<State::Client*> leaving;
  for (const auto& [ends, client] : listener.clients)
    leaving.push_back(client);
  for (State::Client* client : leaving)
    state_->forget(*client);
  state_->listeners.erase(entry);
}

Time UdpRelay::tick(Time now) {
  State::Clients& clients = state_->clients;
  const auto idle = std::chrono::duration_cast<Clock::duration>(state_->settings.idle);
  while (!clients.empty() && now - clients.front().last_active >= idle)
    state_->forget(clients.front());
  if (clients.empty() || idle >= Time::max() - clients.front().last_active) return Time::max();
  return clients.front().last_active + idle;
}

size_t UdpRelay::clients() const { return state_->clients.size(); }

}  // namespace relay
