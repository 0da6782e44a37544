// A client for tests that says exactly what it is told to, and waits for at most a while.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/text.h"

namespace http {

class RawClient {
 public:
  explicit RawClient(uint16_t port, const std::string& address = "127.0.0.1") {
    const bool v6 = address.contains(':');
    fd_ = base::Fd(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0));
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    connected_ = v6 ? connect_v6(port, address) : connect_v4(port, address);
  }

  bool connected() const { return connected_; }

  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server has closed
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void send_no_more() const { ::shutdown(fd_.get(), SHUT_WR); }

  // One answer, to the end of its body.
  std::string answer(bool head = false) {
    size_t end = std::string::npos;
    while ((end = received_.find("\r\n\r\n")) == std::string::npos && receive()) {
    }
    if (end == std::string::npos) return std::exchange(received_, {}) + "[closed]";
    const size_t at = received_.find("Content-Length: ") + 16;
    const auto digits = std::string_view(received_).substr(at, received_.find('\r', at) - at);
    end += 4 + (head ? 0 : base::parse_number<size_t>(digits).value_or(0));
    while (received_.size() < end && receive()) {
    }
    const std::string one = received_.substr(0, end);
    received_.erase(0, end);
    return one;
  }

  // Everything until the server closes.
  std::string rest() {
    while (receive()) {
    }
    return std::exchange(received_, {});
  }

  // Sends a whole request and waits for its answer.
  std::string get(const std::string& path) {
    send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
    return answer();
  }

 private:
  bool connect_v4(uint16_t port, const std::string& address) {
    sockaddr_in to{
        .sin_family = AF_INET, .sin_port = ::htons(port), .sin_addr = {}, .sin_zero = {}};
    ::inet_pton(AF_INET, address.c_str(), &to.sin_addr);
    return ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  bool connect_v6(uint16_t port, const std::string& address) {
    sockaddr_in6 to{.sin6_family = AF_INET6, .sin6_port = ::htons(port), .sin6_addr = {}};
    ::inet_pton(AF_INET6, address.c_str(), &to.sin6_addr);
    return ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }

  bool receive() {
    char bytes[4096];
    const ssize_t size = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    if (size > 0) received_.append(bytes, static_cast<size_t>(size));
    return size > 0;
  }

  base::Fd fd_;
  bool connected_ = false;
  std::string received_;
};

inline std::string body_of(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? answer : answer.substr(end + 4);
}

}  // namespace http
