// Datagrams of one worker: each client of a front has a socket of its own towards an endpoint, until both have been
// silent for a while.
//
// Nothing is kept for later: a datagram that cannot go on at once is dropped, as it may be anywhere on its way. Answers leave
// from the address that the client has written to.
//
// Belongs to the thread of the poller.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "relay/front.h"
#include "relay/poller.h"

namespace relay {

class UdpRelay {
 public:
  struct Settings {
    std::chrono::nanoseconds idle;  // a client that has been silent for so long is forgotten
    std::function<Time()> clock = &Clock::now;
    // A descriptor for a new client: false if there is none to be had. Given back when the client is forgotten.
    std::function<bool()> take_descriptor = [] { return true; };
    std::function<void()> give_descriptor = [] {};
  };
  // The poller outlives it.
  UdpRelay(Poller& poller, Settings settings);
  ~UdpRelay();

  // REQUIRES: a front of protocol UDP, open in one relay only.
  base::Result<> open(const FrontPtr& front);
  // Forgets its clients, too.
  void close(const FrontPtr& front);

  // Forgets clients that have been silent. Returns when to come back at the latest. REQUIRES: no handler is running.
  Time tick(Time now);

  size_t clients() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace relay
