#include "http/server_places.h"

#include <algorithm>

#include <boost/asio/any_io_executor.hpp>

namespace http {
namespace {

// How often hosts that are held back try again, if nobody leaves before: somebody may have to make
// way by then, or descriptors may be free again.
constexpr std::chrono::milliseconds kTryAgain{100};

}  // namespace

Places::Places(const boost::asio::any_io_executor& executor, size_t most_guests,
               std::chrono::milliseconds settle)
    : most_guests_(most_guests), settle_(settle), timer_(executor) {}

bool Places::make_room(const Host& host) {
  const bool house_full = host.guests_ >= host.most_guests_;
  if (!house_full && !full()) return true;
  const Ticket found = longest_waited_for(house_full ? &host : nullptr);
  if (found == places_.end()) return false;
  evict(found);
  return true;
}

void Places::hold_back(Host& host) {
  held_back_.push_back(&host);
  arm();
}

void Places::close(Host& host) {
  held_back_.remove(&host);
  if (held_back_.empty()) timer_.cancel();
  for (auto place = places_.begin(); host.guests_ > 0 && place != places_.end();) {
    const auto next = std::next(place);
    if (place->host == &host) evict(place);
    place = next;
  }
}

Places::Ticket Places::enter(Host& host, Guest& guest) {
  ++host.guests_;
  places_.push_back({.host = &host, .guest = &guest});
  return std::prev(places_.end());
}

void Places::wait_for(Ticket ticket) {
  ticket->waited_for = true;
  ticket->since = Clock::now();
  places_.splice(places_.end(), places_, ticket);
}

void Places::serve(Ticket ticket) { ticket->waited_for = false; }

void Places::leave(Ticket ticket) {
  --ticket->host->guests_;
  places_.erase(ticket);
  if (armed_) timer_.cancel();  // which wakes those that are held back
}

Places::Ticket Places::longest_waited_for(const Host* host) {
  const auto found = std::ranges::find_if(places_, [&](const Place& place) {
    return place.waited_for && (host == nullptr || place.host == host);
  });
  const bool settled = found != places_.end() && Clock::now() - found->since >= settle_;
  return settled ? found : places_.end();
}

void Places::evict(Ticket ticket) {
  Guest* guest = ticket->guest;
  leave(ticket);
  guest->make_way();
}

void Places::arm() {
  if (armed_ || held_back_.empty()) return;
  armed_ = true;
  timer_.expires_after(kTryAgain);
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code&) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->armed_ = false;
    self->wake();
  });
}

// In the order in which they came, and only as long as there is anything to be had: the others keep
// their turn.
void Places::wake() {
  for (size_t turns = held_back_.size(); turns > 0 && !held_back_.empty(); --turns) {
    if (full() && longest_waited_for(nullptr) == places_.end()) break;
    Host* host = held_back_.front();
    held_back_.pop_front();
    host->try_again();
  }
  arm();
}

}  // namespace http
