// Messages to the kernel over netlink, on top of libmnl.
//
// A Conversation is one socket: one request at a time, answered before the next. Blocks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <libmnl/libmnl.h>

#include "base/result.h"

namespace kernel::netlink {

// One request or a batch of them, in place: for requests of fixed size.
struct Message {
  alignas(nlmsghdr) std::array<char, 4096> bytes{};
  size_t used = 0;

  // Appends a header; attributes go behind it, then close().
  nlmsghdr* add(uint16_t type, uint16_t flags);
  // ... of netfilter's kind.
  nlmsghdr* add_netfilter(uint16_t type, uint16_t flags, uint8_t family, uint16_t resource = 0);
  void close(const nlmsghdr* header) { used += MNL_ALIGN(header->nlmsg_len); }
};

// Any number of requests, each an act of its own, that are sent together.
class Requests {
 public:
  // Appends a header; attributes go behind it, at most kRoom bytes in all, then close().
  nlmsghdr* add(uint16_t type, uint16_t flags);
  nlmsghdr* add_netfilter(uint16_t type, uint16_t flags, uint8_t family);
  void close(const nlmsghdr* header);

  size_t size() const { return ends_.size(); }
  // The message at that place.
  nlmsghdr* at(size_t place);

  static constexpr size_t kRoom = 512;

 private:
  friend class Conversation;

  // Where the message at that place begins, or would.
  size_t start(size_t place) const { return place == 0 ? 0 : ends_[place - 1]; }
  std::span<const char> bytes(size_t first, size_t end) const;
  // The end of the messages from `first` on that go together within these bounds. At least one does.
  size_t end_of_piece(size_t first, size_t most, size_t most_bytes) const;

  std::vector<char> bytes_;
  std::vector<size_t> ends_;  // of each message in bytes_
};

// A request that the kernel has refused.
struct RequestFailure {
  size_t place = 0;  // among the Requests, from 0 on
  int number = 0;    // errno; the set subsystem has numbers beyond those
};

class Conversation {
 public:
  // `bus` is NETLINK_NETFILTER and the like.
  static base::Result<Conversation> open(int bus);

  // Sends, and calls `each` for every message of the answer until the acknowledgement or the end of the dump. The
  // kernel's errno becomes the error; `what` says what failed. Busy: the kernel's state changed during a dump, of which
  // something may be missing or double; all that came has been handed on.
  base::Result<> ask(std::span<const char> request, const std::string& what,
                     const std::function<void(const nlmsghdr&)>& each = nullptr);
  base::Result<> ask(const Message& message, const std::string& what,
                     const std::function<void(const nlmsghdr&)>& each = nullptr) {
    return ask(std::span(message.bytes.data(), message.used), what, each);
  }

  // Sends a batch of netfilter's, whose messages are numbered from 1 on and of which the last asks to be acknowledged.
  // Returns which one failed first, if any: then nothing of the batch has happened.
  struct Failure {
    uint32_t sequence = 0;
    int number = 0;  // errno
  };
  base::Result<std::optional<Failure>> send_batch(std::span<const char> batch, uint32_t last,
                                                  const std::string& what);
  // Sends them in pieces that the kernel takes and can answer. One that fails does not keep the others from happening.
  base::Result<std::vector<RequestFailure>> send_all(Requests requests, const std::string& what);
  // Requests sent so far.
  uint64_t sent() const { return sent_; }

  // So that a request of this size can be sent, and many errors be answered.
  void make_room(size_t bytes);

  mnl_socket* socket() const { return socket_.get(); }

 private:
  using Socket = std::unique_ptr<mnl_socket, decltype(&mnl_socket_close)>;
  explicit Conversation(Socket socket) : socket_(std::move(socket)) {}
  base::Result<> send(std::span<const char> request, size_t messages, const std::string& what);
  base::Result<> hear(const std::string& what, const std::function<void(const nlmsghdr&)>& each);
  base::Result<bool> hear_failures(uint32_t last, const std::string& what,
                                   const std::function<void(Failure)>& each);
  void drain();

  Socket socket_;
  size_t room_ = 0;
  uint64_t sent_ = 0;
};

// One request on a socket of its own.
base::Result<> transact(int bus, const Message& message, const std::string& what);

// One request whose refusal is an answer: 0, or the number that the kernel has given as the reason.
base::Result<int> try_one(Conversation& conversation, Requests request, const std::string& what);

}  // namespace kernel::netlink
