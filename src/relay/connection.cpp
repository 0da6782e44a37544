#include "relay/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "relay/socket_address.h"
#include "relay/socket_options.h"

namespace relay {
namespace {

// SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST, whose headers do not go together with netinet/in.h.
constexpr int kOriginalDestination = 80;

// Full pipes in a row that one connection may carry while others wait.
constexpr int kRounds = 16;

// From this many bytes at a time on, there is probably more: a pipe is full of pages, few of which are full themselves.
constexpr size_t kMuch = PipePool::kBytes / 4;

// At a time, if there is no pipe to be had.
constexpr size_t kCopyBytes = size_t{16} * 1024;

// So that closing it sends a reset.
void close_hard(base::Fd& socket) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  socket.reset();
}

ssize_t splice(const base::Fd& from, const base::Fd& to, size_t bytes) {
  // Not by the C library's function, which is there to be cancelled in, and keeps account of that.
  return ::syscall(SYS_splice, from.get(), nullptr, to.get(), nullptr, bytes,
                   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

Connection::Connection(Hub& hub, FrontPtr front, base::Fd client, const Peer& peer)
    : hub_(hub), front_(std::move(front)), peer_(peer) {
  client_.socket = std::move(client);
  hub_.all.push_back(*this);
}

Connection::~Connection() {
  unwatch(client_);
  unwatch(server_);
  for (Stream* stream : {&up_, &down_})
    if (stream->pipe.read) hub_.pipes.discard(std::move(stream->pipe));
}

void Connection::start() {
  auto choice = front_->choose(peer_.ip);
  balancer_ = std::move(choice.balancer);
  proxy_protocol_ = choice.proxy_protocol;
  front_->counters().accepted.fetch_add(1, std::memory_order_relaxed);
  dial();
}

void Connection::dial() {
  for (; attempt_ < kPatience.size(); ++attempt_) {
    target_ =
        balancer_ == nullptr ? nullptr : balancer_->next(peer_.ip, attempt_ > 0, Clock::now());
    if (target_ == nullptr) break;
    if (attempt_ > 0) front_->counters().retried.fetch_add(1, std::memory_order_relaxed);
    switch (connect_to(*target_)) {
      case Dialled::Connected:
        return connected();
      case Dialled::Pending:
        deadline_ = Clock::now() + kPatience[attempt_];
        hub_.connecting[attempt_].push_back(*this);
        return;
      case Dialled::Failed:
        break;
    }
  }
  front_->counters().failed.fetch_add(1, std::memory_order_relaxed);
  abort();
}

Connection::Dialled Connection::connect_to(const Target& target) {
  const SocketAddress to(target.ip(), target.port());
  server_.socket = base::Fd(
      ::socket(to.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  const int socket = server_.socket.get();
  if (socket < 0) return Dialled::Failed;
  set_tcp_options(socket);
  if (::connect(socket, to.get(), to.size()) == 0) return Dialled::Connected;
  if (errno != EINPROGRESS) return Dialled::Failed;
  // To an endpoint on this node the handshake is over by now; asking costs less than waiting for the news.
  if (::connect(socket, to.get(), to.size()) == 0) return Dialled::Connected;
  if (errno != EALREADY) return Dialled::Failed;
  return watch(server_, EPOLLOUT) ? Dialled::Pending : Dialled::Failed;
}

void Connection::give_up_attempt() {
  WaitHook::unlink();
  unwatch(server_);
  server_.socket.reset();
  ++attempt_;
  dial();
}

void Connection::connected() {
  relaying_ = true;
  balancer_ = nullptr;
  if (proxy_protocol_ && !send_proxy_header()) return abort();
  // Whoever speaks first most often is the client, and has spoken.
  if (pump(up_)) settle();
}

bool Connection::send_proxy_header() {
  const ProxyHeader header(peer_, original_destination());
  const auto bytes = header.bytes();
  // The buffer of a socket that has sent nothing yet has room for it.
  return ::send(server_.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

// What the client has connected to, before rules of ours led it here.
Peer Connection::original_destination() const {
  SocketAddress address;
  socklen_t size = SocketAddress::capacity();
  const int socket = client_.socket.get();
  const int level = peer_.ip.family() == net::Family::V4 ? SOL_IP : SOL_IPV6;
  if (::getsockopt(socket, level, kOriginalDestination, address.buffer(), &size) != 0) {
    size = SocketAddress::capacity();
    ::getsockname(socket, address.buffer(), &size);
  }
  return address.peer();
}

void Connection::ready(Side& side, uint32_t events) {
  if (!relaying_) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(side.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return give_up_attempt();
    WaitHook::unlink();
    return connected();
  }
  Stream& in = &side == &client_ ? up_ : down_;
  Stream& out = &side == &client_ ? down_ : up_;
  if ((events & EPOLLERR) != 0) return broken(side, in);
  if ((events & EPOLLOUT) != 0 && !pump(out)) return;
  if ((events & (EPOLLIN | EPOLLHUP)) != 0 && !pump(in)) return;
  // It would tell that for ever, while its last bytes wait for the other side.
  if ((events & EPOLLHUP) != 0 && in.ended && out.done) {
    side.closed = true;
    unwatch(side);
  }
  settle();
}

void Connection::broken(Side& side, Stream& in) {
  if (in.ended) return abort();
  if (!pump(in)) return;
  if (in.ended) return abort();
  // It would tell that for ever, while its last bytes wait for the other side.
  if (in.queued > 0 || in.blocked) {
    side.closed = true;
    unwatch(side);
  }
  settle();
}

bool Connection::pump(Stream& stream) {
  stream.blocked = false;
  // If there is more to read than that, we shall hear of it; but not from a side that is closed.
  const bool silent = stream.from.closed;
  for (int round = 0; (round < kRounds || silent) && !stream.ended; ++round) {
    const Step step = carry(stream);
    if (step == Step::Broken) return abort(), false;
    const bool held_up = stream.queued > 0 || stream.blocked;
    if (held_up || step == Step::Nothing || (step == Step::Little && !silent)) break;
  }
  return !stream.ended || finish(stream);
}

// From socket to socket, as much as one pipe takes.
Connection::Step Connection::carry(Stream& stream) {
  if (stream.queued > 0) return drain(stream);
  auto pipe = hub_.pipes.take();
  if (!pipe) return copy(stream);
  stream.pipe = std::move(*pipe);
  const Step filled = fill(stream);
  if (stream.queued == 0) return_pipe(stream);
  if (filled == Step::Broken || stream.queued == 0) return filled;
  const Step drained = drain(stream);
  return drained == Step::Much ? filled : drained;
}

Connection::Step Connection::fill(Stream& stream) {
  const ssize_t got = splice(stream.from.socket, stream.pipe.write, PipePool::kBytes);
  if (got < 0) return would_block() ? Step::Nothing : Step::Broken;
  stream.ended = got == 0;
  stream.queued = static_cast<size_t>(got);
  return stream.queued >= kMuch ? Step::Much : Step::Little;
}

Connection::Step Connection::drain(Stream& stream) {
  const ssize_t put = splice(stream.pipe.read, stream.to.socket, stream.queued);
  if (put < 0) return would_block() ? Step::Nothing : Step::Broken;
  stream.queued -= static_cast<size_t>(put);
  if (stream.queued > 0) return Step::Little;
  return_pipe(stream);
  return Step::Much;
}

// What the other side does not take stays where it is.
Connection::Step Connection::copy(Stream& stream) {
  std::array<char, kCopyBytes> bytes;
  const int from = stream.from.socket.get();
  const ssize_t seen = ::recv(from, bytes.data(), bytes.size(), MSG_PEEK);
  if (seen < 0) return would_block() ? Step::Nothing : Step::Broken;
  stream.ended = seen == 0;
  if (stream.ended) return Step::Nothing;
  const ssize_t put =
      ::send(stream.to.socket.get(), bytes.data(), static_cast<size_t>(seen), MSG_NOSIGNAL);
  stream.blocked = put < seen;
  if (put < 0) return would_block() ? Step::Nothing : Step::Broken;
  ::recv(from, nullptr, static_cast<size_t>(put), MSG_TRUNC);
  return stream.blocked ? Step::Little : Step::Much;
}

bool Connection::finish(Stream& stream) {
  if (std::exchange(stream.done, true)) return true;
  if (up_.done && down_.done) return true;  // closing it tells the same
  if (::shutdown(stream.to.socket.get(), SHUT_WR) == 0) return true;
  // It has been reset meanwhile.
  return abort(), false;
}

void Connection::return_pipe(Stream& stream) { hub_.pipes.give(std::exchange(stream.pipe, {})); }

void Connection::settle() {
  if (up_.done && down_.done) return end();
  const auto interest = [](const Stream& in, const Stream& out) {
    const bool reads = !in.ended && in.queued == 0 && !in.blocked;
    const bool writes = out.queued > 0 || out.blocked;
    return (reads ? EPOLLIN : 0U) | (writes ? EPOLLOUT : 0U);
  };
  const bool watched = watch(client_, interest(up_, down_)) && watch(server_, interest(down_, up_));
  if (!watched) abort();
}

bool Connection::watch(Side& side, uint32_t interest) {
  if (side.closed) return true;
  if (!side.polled) {
    side.polled = hub_.poller.add(side.socket.get(), interest, side).has_value();
  } else if (side.interest != interest) {
    hub_.poller.modify(side.socket.get(), interest, side);
  }
  side.interest = interest;
  return side.polled;
}

void Connection::unwatch(Side& side) {
  if (std::exchange(side.polled, false)) hub_.poller.remove(side.socket.get(), side);
}

void Connection::abort() {
  unwatch(client_);
  unwatch(server_);
  if (client_.socket) close_hard(client_.socket);
  if (server_.socket) close_hard(server_.socket);
  end();
}

void Connection::end() {
  unwatch(client_);
  unwatch(server_);
  client_.socket.reset();
  server_.socket.reset();
  WaitHook::unlink();
  ListHook::unlink();
  hub_.ended.push_back(*this);
}

}  // namespace relay
