#include "kernel/netlink.h"

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/check.h"

namespace kernel::netlink {
namespace {

using base::Result;

constexpr uint32_t kSequence = 1;

constexpr int kSendAttempts = 5;
constexpr int kDrainAttempts = 100'000;

// The kernel's dumps come in pieces of up to 32 KiB to whoever asks with a buffer of that size.
constexpr size_t kAnswerBytes = size_t{32} * 1024;

// Of requests that go together: what a socket takes, and has room for if the kernel refuses each of them.
constexpr size_t kPieceMessages = 128;
constexpr size_t kPieceBytes = size_t{64} * 1024;

int hand_on(const nlmsghdr* message, void* each) {
  const auto& call = *static_cast<const std::function<void(const nlmsghdr&)>*>(each);
  if (call) call(*message);
  return MNL_CB_OK;
}

// Is one of the messages marked as part of a dump during which the state has changed? Takes the mark away: libmnl would
// stop there, and the end of the dump be missed.
bool take_interruption(std::span<char> piece) {
  bool found = false;
  auto* message = reinterpret_cast<nlmsghdr*>(piece.data());
  for (int left = static_cast<int>(piece.size()); mnl_nlmsg_ok(message, left);
       message = mnl_nlmsg_next(message, &left)) {
    found = found || (message->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    message->nlmsg_flags &= static_cast<uint16_t>(~NLM_F_DUMP_INTR);
  }
  return found;
}

nlmsghdr* put_header(char* at, uint16_t type, uint16_t flags) {
  nlmsghdr* header = mnl_nlmsg_put_header(at);
  header->nlmsg_type = type;
  header->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  header->nlmsg_seq = kSequence;
  return header;
}

nlmsghdr* put_netfilter(nlmsghdr* header, uint8_t family, uint16_t resource) {
  auto* generic = static_cast<nfgenmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(nfgenmsg)));
  generic->nfgen_family = family;
  generic->version = NFNETLINK_V0;
  generic->res_id = htons(resource);
  return header;
}

std::unexpected<base::Error> no_answer(const std::string& what) {
  return base::fail(base::ErrorCode::Lost, what + ": the kernel did not answer");
}

// What the kernel says about a request in this message, if it does.
std::optional<Conversation::Failure> verdict_in(const nlmsghdr& message) {
  if (message.nlmsg_type != NLMSG_ERROR || mnl_nlmsg_get_payload_len(&message) < sizeof(nlmsgerr))
    return std::nullopt;
  const int number = -static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(&message))->error;
  return Conversation::Failure{message.nlmsg_seq, number};
}

}  // namespace

nlmsghdr* Message::add(uint16_t type, uint16_t flags) {
  return put_header(bytes.data() + used, type, flags);
}

nlmsghdr* Message::add_netfilter(uint16_t type, uint16_t flags, uint8_t family, uint16_t resource) {
  return put_netfilter(add(type, flags), family, resource);
}

nlmsghdr* Requests::add(uint16_t type, uint16_t flags) {
  const size_t used = bytes_.size();
  bytes_.resize(used + kRoom);
  return put_header(bytes_.data() + used, type, flags);
}

nlmsghdr* Requests::add_netfilter(uint16_t type, uint16_t flags, uint8_t family) {
  return put_netfilter(add(type, flags), family, 0);
}

void Requests::close(const nlmsghdr* header) {
  const size_t end = start(size()) + MNL_ALIGN(header->nlmsg_len);
  CHECK(end <= bytes_.size());
  bytes_.resize(end);
  ends_.push_back(end);
}

nlmsghdr* Requests::at(size_t place) {
  return reinterpret_cast<nlmsghdr*>(bytes_.data() + start(place));
}

std::span<const char> Requests::bytes(size_t first, size_t end) const {
  return std::span(bytes_).subspan(start(first), start(end) - start(first));
}

size_t Requests::end_of_piece(size_t first, size_t most, size_t most_bytes) const {
  size_t end = first + 1;
  while (end < size() && end - first < most && ends_[end] - start(first) <= most_bytes)
    ++end;
  return end;
}

Result<Conversation> Conversation::open(int bus) {
  Socket socket(mnl_socket_open2(bus, SOCK_CLOEXEC), &mnl_socket_close);
  if (socket == nullptr) return base::fail_errno("open netlink socket");
  if (mnl_socket_bind(socket.get(), 0, MNL_SOCKET_AUTOPID) < 0)
    return base::fail_errno("bind netlink socket");
  // An error need not bring along the request, which may be larger than our buffer.
  const int yes = 1;
  mnl_socket_setsockopt(socket.get(), NETLINK_CAP_ACK, const_cast<int*>(&yes), sizeof yes);
  return Conversation(std::move(socket));
}

Result<> Conversation::ask(std::span<const char> request, const std::string& what,
                           const std::function<void(const nlmsghdr&)>& each) {
  TRY(send(request, 1, what));
  auto done = hear(what, each);
  // What is left of the answer would be taken for that to the next question, and a dump that is not read to its end
  // would keep the socket busy.
  if (!done && done.error().code != base::ErrorCode::Busy) drain();
  return done;
}

Result<> Conversation::hear(const std::string& what,
                            const std::function<void(const nlmsghdr&)>& each) {
  alignas(nlmsghdr) std::array<char, kAnswerBytes> answer;
  const unsigned port = mnl_socket_get_portid(socket_.get());
  bool interrupted = false;
  while (true) {
    const ssize_t size = mnl_socket_recvfrom(socket_.get(), answer.data(), answer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return base::fail_errno(what);
    const std::span piece(answer.data(), static_cast<size_t>(size));
    interrupted = take_interruption(piece) || interrupted;
    const int state = mnl_cb_run(piece.data(), piece.size(), kSequence, port, &hand_on,
                                 const_cast<std::function<void(const nlmsghdr&)>*>(&each));
    if (state < 0) return base::fail_errno(what);
    if (state == MNL_CB_STOP) break;
  }
  if (interrupted) return base::fail(base::ErrorCode::Busy, what + ": changed meanwhile");
  return {};
}

void Conversation::drain() {
  alignas(nlmsghdr) std::array<char, kAnswerBytes> ignored;
  const int fd = mnl_socket_get_fd(socket_.get());
  // Reading is what drives a dump, so that the next piece is there when the last one has been read. An end to it all
  // comes even if every attempt fails.
  for (int attempt = 0; attempt < kDrainAttempts; ++attempt) {
    if (::recv(fd, ignored.data(), ignored.size(), MSG_DONTWAIT) < 0 && errno == EAGAIN) return;
  }
}

Result<> Conversation::send(std::span<const char> request, size_t messages,
                            const std::string& what) {
  for (int attempt = 1;; ++attempt) {
    if (mnl_socket_sendto(socket_.get(), request.data(), request.size()) >= 0) {
      sent_ += messages;
      return {};
    }
    // Nothing of it has reached the kernel.
    const bool passing = errno == ENOBUFS || errno == EINTR || errno == EAGAIN;
    if (!passing || attempt == kSendAttempts) return base::fail_errno(what);
  }
}

void Conversation::make_room(size_t bytes) {
  if (bytes <= room_) return;
  const int room = static_cast<int>(std::min<size_t>(2 * bytes, INT_MAX));
  const int fd = mnl_socket_get_fd(socket_.get());
  // Beyond the limit of the machine, which is for those without privileges; without them as far as it goes.
  if (::setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) != 0)
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  room_ = bytes;
}

// Calls `each` for every request that was refused. Was the last one answered, and no answer lost?
Result<bool> Conversation::hear_failures(uint32_t last, const std::string& what,
                                         const std::function<void(Failure)>& each) {
  // The kernel has done its work when sending returns, and all its answers are there.
  alignas(nlmsghdr) std::array<char, kAnswerBytes> answer;
  bool answered = false;
  bool lost = false;
  const int fd = mnl_socket_get_fd(socket_.get());
  while (true) {
    const ssize_t size = ::recv(fd, answer.data(), answer.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) break;
    if (size < 0 && errno == ENOBUFS) {
      lost = true;
      continue;
    }
    if (size < 0) return base::fail_errno(what);
    int left = static_cast<int>(size);
    for (auto* message = reinterpret_cast<nlmsghdr*>(answer.data()); mnl_nlmsg_ok(message, left);
         message = mnl_nlmsg_next(message, &left)) {
      const auto verdict = verdict_in(*message);
      if (!verdict) continue;
      if (verdict->number != 0) each(*verdict);
      answered = answered || verdict->sequence == last;
    }
  }
  return answered && !lost;
}

Result<std::optional<Conversation::Failure>> Conversation::send_batch(std::span<const char> batch,
                                                                      uint32_t last,
                                                                      const std::string& what) {
  TRY(send(batch, last, what));
  std::optional<Failure> first;
  const bool complete = TRY(hear_failures(last, what, [&](Failure failure) {
    if (!first) first = failure;
  }));
  if (!first && !complete) return no_answer(what);
  return first;
}

Result<std::vector<RequestFailure>> Conversation::send_all(Requests requests,
                                                           const std::string& what) {
  std::vector<RequestFailure> failures;
  for (size_t first = 0; first < requests.size();) {
    const size_t end = requests.end_of_piece(first, kPieceMessages, kPieceBytes);
    // A request that fails is answered unasked. An answer to the last one tells that there are no more.
    for (size_t place = first; place < end; ++place)
      requests.at(place)->nlmsg_seq = static_cast<uint32_t>(place + 1);
    requests.at(end - 1)->nlmsg_flags |= NLM_F_ACK;
    TRY(send(requests.bytes(first, end), end - first, what));
    const size_t before = failures.size();
    const bool complete = TRY(hear_failures(static_cast<uint32_t>(end), what, [&](Failure failure) {
      if (failure.sequence > first && failure.sequence <= end)
        failures.push_back({failure.sequence - 1, failure.number});
    }));
    // Whoever lacks the right to ask is told so in answer to the first request only.
    if (!complete && failures.size() > before)
      return std::unexpected(base::errno_error(what, failures.back().number));
    if (!complete) return no_answer(what);
    first = end;
  }
  return failures;
}

Result<> transact(int bus, const Message& message, const std::string& what) {
  auto conversation = TRY(Conversation::open(bus));
  return conversation.ask(message, what);
}

Result<int> try_one(Conversation& conversation, Requests request, const std::string& what) {
  const auto failures = TRY(conversation.send_all(std::move(request), what));
  return failures.empty() ? 0 : failures.front().number;
}

}  // namespace kernel::netlink
