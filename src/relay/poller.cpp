#include "relay/poller.h"

#include <errno.h>

#include <algorithm>

#include "base/check.h"

namespace relay {
namespace {

epoll_event event_for(uint32_t events, Handler& handler) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &handler;
  return event;
}

// Rounded up: who comes too early finds nothing to do, and comes again at once.
int milliseconds_until(Time deadline) {
  if (deadline == Time::max()) return -1;
  const Time now = Clock::now();
  if (deadline <= now) return 0;
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
  return static_cast<int>(std::min(left, kLongest).count());
}

}  // namespace

base::Result<Poller> Poller::open() {
  base::Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return base::fail_errno("epoll");
  return Poller(std::move(epoll));
}

base::Result<> Poller::add(int fd, uint32_t events, Handler& handler) {
  epoll_event event = event_for(events, handler);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return base::fail_errno("epoll");
  return {};
}

void Poller::modify(int fd, uint32_t events, Handler& handler) {
  epoll_event event = event_for(events, handler);
  CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0);
}

void Poller::remove(int fd, const Handler& handler) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  for (size_t i = next_; i < count_; ++i) {
    if (events_[i].data.ptr == &handler) events_[i].data.ptr = nullptr;
  }
}

void Poller::poll(Time deadline) {
  const int found = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()),
                                 milliseconds_until(deadline));
  CHECK(found >= 0 || errno == EINTR);
  count_ = static_cast<size_t>(std::max(found, 0));
  for (next_ = 0; next_ < count_;) {
    const epoll_event& event = events_[next_++];
    if (event.data.ptr != nullptr) static_cast<Handler*>(event.data.ptr)->ready(event.events);
  }
  next_ = count_ = 0;
}

}  // namespace relay
