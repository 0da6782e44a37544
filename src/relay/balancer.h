// Which endpoint gets the next connection: each in turn or, with session affinity, the one that the client had before.
//
// Both classes may be used from any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "net/ip.h"
#include "relay/target.h"

namespace relay {

// With a key of its own that nobody can guess: clients choose their addresses, and must not choose ones that collide.
class IpHash {
 public:
  using is_avalanching = void;
  IpHash();
  size_t operator()(const net::IpAddr& ip) const { return (*this)(ip, 0); }
  // Of the address together with something else.
  size_t operator()(const net::IpAddr& ip, uint64_t seed) const;

 private:
  std::array<uint64_t, 2> key_;
};

// Who talked to whom last. One for each Service port, whatever the ways to it.
class Affinities {
 public:
  // Of more clients, those that have not been seen for longest are forgotten, half of them at a time.
  static constexpr size_t kMaxClients = size_t{1} << 20;

  explicit Affinities(std::chrono::seconds ttl, size_t max_clients = kMaxClients)
      : max_clients_(max_clients), ttl_(ttl) {}

  void set_ttl(std::chrono::seconds ttl);
  // Where this client goes: to the endpoint that it had, if its record is younger than the time to live and the endpoint
  // is `offered`; otherwise where `choose` says. One step, so that connections which a client opens all at once meet.
  template <typename Offered, typename Choose>
  TargetPtr stick(const net::IpAddr& client, Time now, Offered offered, Choose choose);
  void note(const net::IpAddr& client, const TargetPtr& target, Time now);
  // Unless the client has got another one since.
  void forget(const net::IpAddr& client, const TargetPtr& target);
  // Drops records that are too old, and those of endpoints that are gone.
  void forget_stale(Time now);
  size_t size() const;

 private:
  struct Record {
    TargetPtr target;
    Time last_used;
  };
  using Records = boost::unordered_flat_map<net::IpAddr, Record, IpHash>;

  // REQUIRES for all of them: the lock. Whoever is found is in recent_ afterwards.
  Record* find(const net::IpAddr& client);
  Record& record_of(const net::IpAddr& client);
  Record& add(const net::IpAddr& client, Record record);

  const size_t max_clients_;
  mutable std::mutex mutex_;
  std::chrono::seconds ttl_;
  // When recent_ is full it takes the place of earlier_: who has been seen since is in recent_ again.
  Records recent_;
  Records earlier_;
};

// A list of endpoints, which never changes: another list is another balancer.
class Balancer {
 public:
  // In this order; whoever makes one shuffles. `affinities` may be null.
  Balancer(std::vector<TargetPtr> targets, std::shared_ptr<Affinities> affinities);

  // Null if there is none. With `fresh` what the client had before does not count: it did not answer.
  TargetPtr next(const net::IpAddr& client, bool fresh, Time now);
  bool offers(const Target& target) const;
  // Affinity does not lead the client there again.
  void does_not_answer(const TargetPtr& target, const net::IpAddr& client);

  const std::vector<TargetPtr>& targets() const { return targets_; }

 private:
  TargetPtr in_turn();

  std::vector<TargetPtr> targets_;
  std::vector<const Target*> sorted_;
  std::shared_ptr<Affinities> affinities_;
  std::atomic<size_t> next_ = 0;
};

template <typename Offered, typename Choose>
TargetPtr Affinities::stick(const net::IpAddr& client, Time now, Offered offered, Choose choose) {
  const std::lock_guard lock(mutex_);
  Record& record = record_of(client);
  const bool holds = record.target && now - record.last_used < ttl_ && offered(*record.target);
  if (!holds) record.target = choose();
  record.last_used = now;
  return record.target;
}

}  // namespace relay
