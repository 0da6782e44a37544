#include "relay/worker.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace relay {

base::Result<std::unique_ptr<Worker>> Worker::make(Settings settings) {
  auto poller = TRY(Poller::open());
  base::Fd bell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!bell) return base::fail_errno("eventfd");
  std::unique_ptr<Worker> worker(
      new Worker(std::move(settings), std::move(poller), std::move(bell)));
  TRY(worker->poller_.add(worker->bell_.fd.get(), EPOLLIN, worker->bell_));
  return worker;
}

Worker::Worker(Settings settings, Poller poller, base::Fd bell)
    : settings_(std::move(settings)),
      poller_(std::move(poller)),
      bell_{},
      tcp_(poller_, {.sockets = settings_.sockets,
                     .pipes = settings_.pipes,
                     .pass_on = [this](Accepted& accepted) { return pass_on(accepted); }}),
      udp_(poller_, {.idle = settings_.udp_idle,
                     .take_descriptor = [this] { return take_descriptor(); },
                     .give_descriptor = [this] { give_descriptor(); }}) {
  bell_.fd = std::move(bell);
}

Worker::~Worker() { stop(); }

void Worker::start() {
  thread_ = std::thread([this] { run(); });
}

void Worker::stop() {
  if (!thread_.joinable()) return;
  post([this](TcpRelay&, UdpRelay&) { stopping_ = true; });
  thread_.join();
}

void Worker::post(Order order) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = orders_.empty();
    orders_.push_back(std::move(order));
  }
  const uint64_t one = 1;
  if (first) CHECK(::write(bell_.fd.get(), &one, sizeof one) == sizeof one);
}

void Worker::Bell::ready(uint32_t /*events*/) {
  uint64_t times = 0;
  CHECK(::read(fd.get(), &times, sizeof times) == sizeof times);
  rung = true;
}

void Worker::run() {
  ::pthread_setname_np(::pthread_self(), ("relay-" + std::to_string(settings_.number)).c_str());
  // Writing to a socket that is closed is an error like any other.
  sigset_t broken_pipe;
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);

  Time next = Time::min();
  while (!stopping_) {
    poller_.poll(next);
    if (std::exchange(bell_.rung, false)) obey();
    const Time now = Clock::now();
    next = std::min(tcp_.tick(now), udp_.tick(now));
    connections_.store(tcp_.connections(), std::memory_order_relaxed);
    clients_.store(udp_.clients(), std::memory_order_relaxed);
    waiting_.store(tcp_.waiting(), std::memory_order_relaxed);
  }
}

void Worker::obey() {
  std::vector<Order> orders;
  {
    const std::lock_guard lock(mutex_);
    orders.swap(orders_);
  }
  for (auto& order : orders)
    order(tcp_, udp_);
}

bool Worker::pass_on(Accepted& accepted) {
  connections_.store(tcp_.connections(), std::memory_order_relaxed);
  Worker* other = settings_.idler(*this);
  if (other == nullptr) return false;
  other->connections_.fetch_add(1, std::memory_order_relaxed);  // until it counts itself
  other->post([accepted = std::move(accepted)](TcpRelay& tcp, UdpRelay&) mutable {
    tcp.serve(std::move(accepted));
  });
  return true;
}

bool Worker::take_descriptor() {
  if (!settings_.clients.take(1)) return false;
  if (settings_.sockets.take(1)) return true;
  settings_.clients.give(1);
  return false;
}

void Worker::give_descriptor() {
  settings_.sockets.give(1);
  settings_.clients.give(1);
}

}  // namespace relay
