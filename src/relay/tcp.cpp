#include "relay/tcp.h"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "relay/connection.h"
#include "relay/pipe_pool.h"
#include "relay/socket_address.h"

namespace relay {
namespace {

// How many connections of one front are accepted while others wait.
constexpr int kAcceptBatch = 16;

// When to look again for descriptors, if nothing of ours ends.
constexpr std::chrono::milliseconds kWaitForDescriptors{20};

// There is none, or none that is alive.
bool nothing_accepted(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINVAL;
}

bool out_of_descriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

// Edge-triggered, for two reasons: a socket that does not listen yet would always be ready, and so would one whose
// clients have to wait for descriptors.
class Acceptor final : public Handler {
 public:
  Acceptor(TcpRelay::State& state, FrontPtr front) : state_(state), front_(std::move(front)) {}
  void ready(uint32_t events) override;
  const FrontPtr& front() const { return front_; }

  bool queued = false;  // in State::unfinished

 private:
  TcpRelay::State& state_;
  FrontPtr front_;
};

struct TcpRelay::State {
  State(Poller& epoll, TcpRelay::Settings given)
      : poller(epoll), settings(std::move(given)), pipes(settings.pipes) {}

  // What came of trying to accept.
  enum class Turn : uint8_t { Nothing, Unfinished, NoDescriptors };

  void accept(Acceptor& acceptor);
  Turn take_turn(const FrontPtr& front);
  void serve(Accepted accepted);
  void accept_rest(Time now);
  void give_up_attempts(Time now);
  void reset_doomed(Time now);
  void bury();
  Time next() const;

  Poller& poller;
  TcpRelay::Settings settings;
  PipePool pipes;
  Hub hub{poller, pipes};
  size_t connections = 0;
  boost::unordered_flat_map<const Front*, std::unique_ptr<Acceptor>> acceptors;
  std::vector<Acceptor*> unfinished;  // there may be more to accept
  bool starved = false;               // ... once there are descriptors
  Time look_again = Time::max();      // for those
  Time doom = Time::max();            // the first deadline of a target that has left
};

void Acceptor::ready(uint32_t /*events*/) {
  if (!queued) state_.accept(*this);
}

void TcpRelay::State::accept(Acceptor& acceptor) {
  const Turn turn = take_turn(acceptor.front());
  if (turn == Turn::Nothing) return;
  acceptor.queued = true;
  unfinished.push_back(&acceptor);
  if (turn != Turn::NoDescriptors) return;
  starved = true;
  look_again = Clock::now() + kWaitForDescriptors;
}

TcpRelay::State::Turn TcpRelay::State::take_turn(const FrontPtr& front) {
  for (int i = 0; i < kAcceptBatch; ++i) {
    if (!settings.sockets.take(Connection::kDescriptors)) return Turn::NoDescriptors;
    SocketAddress from;
    socklen_t size = SocketAddress::capacity();
    base::Fd socket(::accept4(front->socket(), from.buffer(), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      Accepted accepted{front, std::move(socket), from.peer()};
      if (!settings.pass_on || !settings.pass_on(accepted)) serve(std::move(accepted));
      continue;
    }
    const int error = errno;
    settings.sockets.give(Connection::kDescriptors);
    if (nothing_accepted(error)) return Turn::Nothing;
    if (out_of_descriptors(error)) return Turn::NoDescriptors;
    // A client that has gone meanwhile, or news of the network: there may be another one.
  }
  return Turn::Unfinished;
}

void TcpRelay::State::serve(Accepted accepted) {
  ++connections;
  auto* connection = new Connection(hub, std::move(accepted.front), std::move(accepted.socket),
                                    accepted.peer);  // Hub::all has it
  connection->start();
}

void TcpRelay::State::accept_rest(Time now) {
  if (starved && now < look_again) return;
  starved = false;
  look_again = Time::max();
  for (Acceptor* acceptor : std::exchange(unfinished, {})) {
    acceptor->queued = false;
    accept(*acceptor);
  }
}

void TcpRelay::State::give_up_attempts(Time now) {
  for (auto& list : hub.connecting) {
    while (!list.empty() && list.front().deadline() <= now)
      list.front().give_up_attempt();
  }
}

void TcpRelay::State::reset_doomed(Time now) {
  if (now < doom) return;
  doom = Time::max();
  for (auto it = hub.all.begin(); it != hub.all.end();) {
    Connection& connection = *it++;
    const Target* target = connection.target();
    if (target == nullptr || !target->gone()) continue;
    if (target->deadline() <= now) {
      connection.abort();
    } else {
      doom = std::min(doom, target->deadline());
    }
  }
}

void TcpRelay::State::bury() {
  if (hub.ended.empty()) return;
  hub.ended.clear_and_dispose([this](Connection* connection) {
    delete connection;
    settings.sockets.give(Connection::kDescriptors);
    --connections;
  });
  look_again = starved ? Time::min() : look_again;
}

Time TcpRelay::State::next() const {
  if (!unfinished.empty() && !starved) return Time::min();
  Time soonest = std::min(look_again, doom);
  for (const auto& list : hub.connecting)
    if (!list.empty()) soonest = std::min(soonest, list.front().deadline());
  return soonest;
}

TcpRelay::TcpRelay(Poller& poller, Settings settings)
    : state_(std::make_unique<State>(poller, std::move(settings))) {}

TcpRelay::~TcpRelay() {
  for (auto& [front, acceptor] : state_->acceptors)
    state_->poller.remove(front->socket(), *acceptor);
  while (!state_->hub.all.empty())
    state_->hub.all.front().abort();
  state_->bury();
}

base::Result<> TcpRelay::open(const FrontPtr& front) {
  auto acceptor = std::make_unique<Acceptor>(*state_, front);
  TRY(state_->poller.add(front->socket(), EPOLLIN | EPOLLET | EPOLLEXCLUSIVE, *acceptor));
  state_->acceptors[front.get()] = std::move(acceptor);
  return {};
}

void TcpRelay::close(const FrontPtr& front) {
  const auto found = state_->acceptors.find(front.get());
  if (found == state_->acceptors.end()) return;
  state_->poller.remove(front->socket(), *found->second);
  std::erase(state_->unfinished, found->second.get());
  state_->acceptors.erase(found);
}

void TcpRelay::serve(Accepted accepted) { state_->serve(std::move(accepted)); }

void TcpRelay::expect_deadline(Time deadline) { state_->doom = std::min(state_->doom, deadline); }

Time TcpRelay::tick(Time now) {
  state_->give_up_attempts(now);
  state_->reset_doomed(now);
  state_->bury();
  state_->accept_rest(now);
  state_->bury();
  return state_->next();
}

size_t TcpRelay::connections() const { return state_->connections; }

size_t TcpRelay::waiting() const { return state_->starved ? state_->unfinished.size() : 0; }

}  // namespace relay
