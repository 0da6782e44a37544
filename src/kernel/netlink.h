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
  // So that a request of this size can be sent, and many errors be answered.
  void make_room(size_t bytes);

  mnl_socket* socket() const { return socket_.get(); }

 private:
  using Socket = std::unique_ptr<mnl_socket, decltype(&mnl_socket_close)>;
  explicit Conversation(Socket socket) : socket_(std::move(socket)) {}
  base::Result<> send(std::span<const char> request, const std::string& what);
  base::Result<> hear(const std::string& what, const std::function<void(const nlmsghdr&)>& each);
  void drain();

  Socket socket_;
  size_t room_ = 0;
};

// One request on a socket of its own.
base::Result<> transact(int bus, const Message& message, const std::string& what);

}  // namespace kernel::netlink
