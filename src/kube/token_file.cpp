#include "kube/token_file.h"

#include <utility>

#include "base/text.h"
#include "config/kubeconfig_io.h"

namespace kube {
namespace {

using namespace std::chrono_literals;
using base::Result;

constexpr auto kReadAgain = 50s;
constexpr auto kTellAgain = 1min;

}  // namespace

TokenFile::TokenFile(std::string path, std::string fallback, Tell tell, Clocks clocks)
    : path_(std::move(path)),
      token_(std::move(fallback)),
      tell_(std::move(tell)),
      clocks_(std::move(clocks)),
      patience_(kTellAgain) {}

Result<> TokenFile::open() {
  if (token_.empty()) TRY(read());
  renew();
  return {};
}

const std::string& TokenFile::token() {
  if (due_ || clocks_.steady() - read_at_ >= kReadAgain) renew();
  return token_;
}

Result<std::string> TokenFile::read() const {
  auto text = config::read_small_file(path_);
  if (!text) {
    return std::unexpected(text.error().in("failed to read token file " + base::quote(path_)));
  }
  const std::string_view token = base::trim(*text);
  if (token.empty()) {
    return base::fail(base::ErrorCode::Invalid, "read empty token from file " + base::quote(path_));
  }
  return std::string(token);
}

// A failure is tried again with the next use.
void TokenFile::renew() {
  auto token = read();
  if (token) {
    token_ = *std::move(token);
    was_read_ = true;
    due_ = false;
    read_at_ = clocks_.steady();
    patience_.calm();
    return;
  }
  due_ = true;
  // Parity: beside a token in the kubeconfig a file that was never there is no trouble.
  if (!was_read_ || !patience_.is_over(token.error().text, clocks_.steady())) return;
  tell_({.severity = Notice::Severity::Error,
         .message = "Unable to rotate token",
         .err = token.error().text});
}

}  // namespace kube
