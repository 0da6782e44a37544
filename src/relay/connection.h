// One TCP connection of a client, and the one to an endpoint that it is joined with.
//
// The bytes go from socket to pipe to socket inside the kernel. A side that sends slower than the other stops
// the reading there, so that nothing piles up but what the sockets and one pipe hold. An end of stream is passed on by
// itself: the other direction goes on. A reset is passed on as a reset.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <boost/intrusive/list.hpp>

#include "base/fd.h"
#include "relay/budget.h"
#include "relay/front.h"
#include "relay/pipe_pool.h"
#include "relay/poller.h"
#include "relay/proxy_header.h"

namespace relay {

// How long each attempt to connect may take, the next one being to another endpoint.
inline constexpr std::array<std::chrono::milliseconds, 4> kPatience{
    std::chrono::milliseconds(250), std::chrono::milliseconds(500), std::chrono::milliseconds(1000),
    std::chrono::milliseconds(2000)};

// Where connections are noted: all of a worker, and those that wait for an endpoint to answer.
struct ListTag;
struct WaitTag;
using ListHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<ListTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
using WaitHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<WaitTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class Connection;
template <typename Hook>
using ConnectionList = boost::intrusive::list<Connection, boost::intrusive::base_hook<Hook>,
                                              boost::intrusive::constant_time_size<false>>;

// What the connections of a worker share.
struct Hub {
  Poller& poller;
  PipePool& pipes;
  ConnectionList<ListHook> all{};
  ConnectionList<ListHook> ended{};  // to be destroyed once no event can mean them any more
  std::array<ConnectionList<WaitHook>, kPatience.size()> connecting{};  // by attempt, oldest first
};

class Connection : public ListHook, public WaitHook {
 public:
  // Descriptors that it has, besides pipes.
  static constexpr size_t kDescriptors = 2;

  Connection(Hub& hub, FrontPtr front, base::Fd client, const Peer& peer);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Connects to an endpoint. From here on it looks after itself, until it is in Hub::ended.
  void start();
  // When the attempt to connect is over. REQUIRES: it is in Hub::connecting.
  Time deadline() const { return deadline_; }
  void give_up_attempt();
  // Resets both sides.
  void abort();

  // Null while there is none.
  const Target* target() const { return target_.get(); }

 private:
  struct Side final : Handler {
    explicit Side(Connection& owner) : connection(owner) {}
    void ready(uint32_t events) override { connection.ready(*this, events); }

    Connection& connection;
    base::Fd socket;
    uint32_t interest = 0;
    bool polled = false;
    bool closed = false;  // on both ways: it has nothing more to tell
  };

  // One direction.
  struct Stream {
    Side& from;
    Side& to;
    Pipe pipe{};           // open only while bytes are queued in it
    size_t queued = 0;     // bytes in the pipe
    bool ended = false;    // there is nothing more to read
    bool done = false;     // ... and the other side knows
    bool blocked = false;  // the other side takes no more for now, and the pipe is empty
  };

  enum class Dialled : uint8_t { Connected, Pending, Failed };
  void dial();
  Dialled connect_to(const Target& target);
  void connected();
  bool send_proxy_header();
  Peer original_destination() const;

  void ready(Side& side, uint32_t events);
  // The side has been reset. What it has sent before still counts.
  void broken(Side& side, Stream& in);
  // False: the connection has been aborted.
  bool pump(Stream& stream);
  enum class Step : uint8_t { Much, Little, Nothing, Broken };
  Step carry(Stream& stream);
  Step fill(Stream& stream);
  Step drain(Stream& stream);
  // For want of a pipe, through our memory.
  Step copy(Stream& stream);
  bool finish(Stream& stream);
  void return_pipe(Stream& stream);
  // What to wait for next; or this was all.
  void settle();
  // False: it cannot be watched.
  bool watch(Side& side, uint32_t interest);
  void unwatch(Side& side);
  void end();

  Hub& hub_;
  FrontPtr front_;
  std::shared_ptr<Balancer> balancer_;  // only while connecting
  TargetPtr target_;
  Peer peer_;
  Time deadline_;
  uint8_t attempt_ = 0;
  bool relaying_ = false;  // connected to an endpoint
  bool proxy_protocol_ = false;
  Side client_{*this};
  Side server_{*this};
  Stream up_{client_, server_};
  Stream down_{server_, client_};
};

}  // namespace relay
