// The TCP connections of one worker.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "relay/budget.h"
#include "relay/front.h"
#include "relay/poller.h"
#include "relay/proxy_header.h"

namespace relay {

// A connection that a client has made, and that is not served yet.
struct Accepted {
  FrontPtr front;
  base::Fd socket;
  Peer peer;
};

class Acceptor;

class TcpRelay {
 public:
  struct Settings {
    Budget& sockets;  // for connections
    Budget& pipes;
    // Another worker that has less to do gets the connection: true. May be empty.
    std::function<bool(Accepted&)> pass_on{};
  };
  TcpRelay(Poller& poller, Settings settings);
  ~TcpRelay();

  // Accepts connections of the front, in turns with other workers that have it open, too.
  base::Result<> open(const FrontPtr& front);
  // Accepts no more. Connections go on.
  void close(const FrontPtr& front);

  // Serves a connection, which has its part of the budget.
  void serve(Accepted accepted);

  // Connections to targets that have left are reset at their deadline; this is the next one.
  void expect_deadline(Time deadline);

  // Does what is due. Returns when to come back at the latest.
  Time tick(Time now);

  size_t connections() const;
  // Fronts that have connections which wait for descriptors.
  size_t waiting() const;

 private:
  friend class Acceptor;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace relay
