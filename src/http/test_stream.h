// A ByteStream for tests: gives what it is told to, in pieces, and keeps what it is given.
#pragma once

#include <algorithm>
#include <string>

#include "http/stream.h"

namespace http {

class ScriptedStream final : public ByteStream {
 public:
  // Then the peer ends the connection.
  explicit ScriptedStream(std::string incoming, size_t piece = 7)
      : incoming_(std::move(incoming)), piece_(std::max<size_t>(piece, 1)) {}

  event::Async<base::Result<size_t>> read_some(std::span<char> buffer) override {
    const size_t size = std::min({buffer.size(), piece_, incoming_.size() - at_});
    std::copy_n(incoming_.data() + at_, size, buffer.data());
    at_ += size;
    co_return size;
  }
  event::Async<base::Result<>> write(std::string_view bytes) override {
    sent += bytes;
    co_return base::Result<>();
  }
  void close() override {}

  std::string sent;
  std::string left() const { return incoming_.substr(at_); }

 private:
  std::string incoming_;
  size_t piece_;
  size_t at_ = 0;
};

}  // namespace http
