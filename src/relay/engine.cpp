#include "relay/engine.h"

#include <algorithm>
#include <latch>

#include "relay/worker.h"

namespace relay {
namespace {

// Passing a connection on costs a few microseconds: not for every small difference.
constexpr size_t kImbalance = 4;

// Each client of UDP takes one of the node's ports for outgoing datagrams, 28,000 by default: others need some, too.
constexpr size_t kMostClients = 14'000;

// Only those connections need a pipe whose bytes are held up right now, and they can do without.
size_t for_pipes(size_t descriptors) {
  constexpr size_t kMost = 8192;
  return std::min(descriptors / 8, kMost);
}

}  // namespace

Engine::Engine(const Settings& settings)
    : sockets_(settings.descriptors - for_pipes(settings.descriptors)),
      pipes_(for_pipes(settings.descriptors)),
      clients_(kMostClients) {}

base::Result<std::shared_ptr<Engine>> Engine::start(const Settings& settings) {
  std::shared_ptr<Engine> engine(new Engine(settings));
  for (unsigned i = 0; i < std::max(settings.workers, 1U); ++i) {
    engine->workers_.push_back(TRY(Worker::make(
        {.number = i,
         .udp_idle = settings.udp_idle,
         .sockets = engine->sockets_,
         .pipes = engine->pipes_,
         .clients = engine->clients_,
         .idler = [all = engine.get()](const Worker& busy) { return all->idler_than(busy); }})));
  }
  for (auto& worker : engine->workers_)
    worker->start();
  return engine;
}

Engine::~Engine() {
  // All of them first: one may pass a connection on to another.
  for (auto& worker : workers_)
    worker->stop();
}

Worker* Engine::idler_than(const Worker& busy) {
  const auto idlest = std::ranges::min_element(
      workers_, {}, [](const auto& worker) { return worker->connections(); });
  return (*idlest)->connections() + kImbalance <= busy.connections() ? idlest->get() : nullptr;
}

base::Result<> Engine::open(const FrontPtr& front) {
  const bool udp = front->settings().protocol == net::Protocol::Udp;
  // Datagrams of a front all go through one worker, which knows its clients.
  const size_t first = udp ? turn_.fetch_add(1) % workers_.size() : 0;
  const size_t count = udp ? 1 : workers_.size();
  std::vector<base::Result<>> results(count);
  std::latch done(static_cast<ptrdiff_t>(count));
  for (size_t i = 0; i < count; ++i) {
    workers_[first + i]->post([&, i, udp](TcpRelay& tcp, UdpRelay& datagrams) {
      results[i] = udp ? datagrams.open(front) : tcp.open(front);
      done.count_down();
    });
  }
  done.wait();
  sockets_.hold(1);
  for (auto& result : results)
    TRY(std::move(result));
  return {};
}

void Engine::close(const std::vector<FrontPtr>& fronts) {
  if (fronts.empty()) return;
  sockets_.give(fronts.size());
  std::latch done(static_cast<ptrdiff_t>(workers_.size()));
  for (auto& worker : workers_) {
    worker->post([&](TcpRelay& tcp, UdpRelay& udp) {
      for (const auto& front : fronts) {
        if (front->settings().protocol == net::Protocol::Udp) {
          udp.close(front);
        } else {
          tcp.close(front);
        }
      }
      done.count_down();
    });
  }
  done.wait();
}

void Engine::expect_deadline(Time deadline) {
  for (auto& worker : workers_)
    worker->post([deadline](TcpRelay& tcp, UdpRelay&) { tcp.expect_deadline(deadline); });
}

Engine::Totals Engine::totals() const {
  Totals totals;
  for (const auto& worker : workers_) {
    totals.connections += worker->connections();
    totals.clients += worker->clients();
    totals.waiting_fronts += worker->waiting();
  }
  return totals;
}

}  // namespace relay
