// Who may be connected: the places of one server, or those that several servers share.
//
// A server is a host, a connection is a guest. While no place is free, whoever comes next takes the
// place of the guest that we have waited for longest: an idle one, or one that does not get its
// request said. Guests that wait for us keep their place.
//
// Loop thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>

#include <boost/asio/steady_timer.hpp>

namespace boost::asio {
class any_io_executor;
}

namespace http {

class Places : public std::enable_shared_from_this<Places> {
 public:
  class Host {
   public:
    explicit Host(size_t most_guests) : most_guests_(most_guests) {}
    // There may be room now: ask again.
    virtual void try_again() = 0;

   protected:
    virtual ~Host() = default;

   private:
    friend class Places;
    size_t most_guests_;
    size_t guests_ = 0;
  };

  class Guest {
   public:
    // Its place is gone: it ends, and does not use its ticket any more.
    virtual void make_way() = 0;

   protected:
    ~Guest() = default;
  };

  using Clock = std::chrono::steady_clock;
  struct Place {
    Host* host = nullptr;
    Guest* guest = nullptr;
    bool waited_for = false;
    Clock::time_point since{};
  };
  using Ticket = std::list<Place>::iterator;

  // Nobody has to make way before we have waited `settle` for it: a request may be on its way.
  Places(const boost::asio::any_io_executor& executor, size_t most_guests,
         std::chrono::milliseconds settle);

  // Is there room for one more guest of the host? Somebody may have to make way for it.
  bool make_room(const Host& host);
  // The host cannot take a guest now; it is asked to try again soon.
  void hold_back(Host& host);
  // Closes the house of the host: all its guests make way.
  void close(Host& host);

  Ticket enter(Host& host, Guest& guest);
  // From now on, we wait for the guest.
  void wait_for(Ticket ticket);
  // From now on, the guest waits for us.
  void serve(Ticket ticket);
  void leave(Ticket ticket);

 private:
  bool full() const { return places_.size() >= most_guests_; }
  // Of one host, or of all. places_.end(): none.
  Ticket longest_waited_for(const Host* host);
  void evict(Ticket ticket);
  void arm();
  void wake();

  size_t most_guests_;
  std::chrono::milliseconds settle_;
  std::list<Place> places_;  // of those that are waited for, the one that has been so longest first
  std::list<Host*> held_back_;
  boost::asio::steady_timer timer_;
  bool armed_ = false;
};

}  // namespace http
