#include "kube/pem_files.h"

#include <utility>

#include "config/kubeconfig_io.h"

namespace kube {
namespace {

using namespace std::chrono_literals;
using base::Result;

constexpr auto kLookAgain = 1s;
constexpr auto kTellAgain = 5min;

Result<std::string> content(const config::Pem& pem) {
  if (!pem.data.empty()) return pem.data;
  if (!pem.file.empty()) return config::read_small_file(pem.file);
  return std::string();
}

Result<> check_ca(const std::string& pem) {
  TRY(http::make_tls_context({.ca_pem = pem}));
  return {};
}

// With nobody to trust, as reading the system's roots takes its time.
Result<> check_pair(const std::string& cert, const std::string& key) {
  TRY(http::make_tls_context({.ca_pem = "", .cert_pem = cert, .key_pem = key}));
  return {};
}

}  // namespace

PemFiles::PemFiles(const config::Access& access, Tell tell, Clocks clocks)
    : ca_(access.ca),
      cert_(access.cert),
      key_(access.key),
      in_cluster_(access.in_cluster),
      tell_(std::move(tell)),
      clocks_(std::move(clocks)),
      ca_patience_(kTellAgain),
      pair_patience_(kTellAgain) {
  in_force_.verify = !access.insecure;
}

Result<> PemFiles::open() {
  looked_at_ = clocks_.steady();
  TRY(open_ca());
  return open_pair();
}

Result<> PemFiles::open_ca() {
  if (ca_.empty()) return {};
  auto pem = content(ca_);
  const Result<> checked = pem ? check_ca(*pem) : std::unexpected(pem.error());
  if (in_cluster_ && (!checked || pem->empty())) {
    // Parity: a pod whose CA cannot be read trusts the system's roots from then on.
    tell_({.severity = Notice::Severity::Error,
           .message = "Expected to load root CA config from " + ca_.file +
                      ", but got err: " + (checked ? "the file is empty" : checked.error().text)});
    ca_ = {};
    return {};
  }
  TRY(checked);
  in_force_.ca_pem = *std::move(pem);
  return {};
}

Result<> PemFiles::open_pair() {
  if (!has_pair()) return {};
  std::string cert = TRY(content(cert_));
  std::string key = TRY(content(key_));
  if (const auto checked = check_pair(cert, key); !checked) {
    if (!is_pair_of_files()) return checked;
    pair_problem_ = checked.error().text;
    complain_about_pair(cert_.file + ": " + pair_problem_);
    return {};
  }
  in_force_.cert_pem = std::move(cert);
  in_force_.key_pem = std::move(key);
  return {};
}

void PemFiles::look() {
  const auto now = clocks_.steady();
  if (now - looked_at_ < kLookAgain) return;
  looked_at_ = now;
  if (!ca_.file.empty() && ca_.data.empty()) look_at_ca();
  if (has_pair() && is_pair_of_files()) look_at_pair();
}

void PemFiles::look_at_ca() {
  const auto keep_old = [&](Notice notice) {
    notice.fields = {{"caFile", ca_.file}};
    complain(notice, ca_patience_);
  };
  auto pem = content(ca_);
  if (!pem) {
    return keep_old({.severity = Notice::Severity::Error,
                     .message = "Failed to read CA data from file",
                     .err = pem.error().text});
  }
  if (*pem == in_force_.ca_pem) return ca_patience_.calm();
  // Most likely somebody is writing it.
  if (pem->empty()) return keep_old({.message = "CA file empty, skipping transport rotation"});
  if (const auto checked = check_ca(*pem); !checked) {
    return keep_old({.severity = Notice::Severity::Error,
                     .message = "Failed to parse CA data from file",
                     .err = checked.error().text});
  }
  ca_patience_.calm();
  in_force_.ca_pem = *std::move(pem);
  ++generation_;
}

void PemFiles::look_at_pair() {
  auto cert = content(cert_);
  if (!cert) return complain_about_pair(cert.error().text);
  auto key = content(key_);
  if (!key) return complain_about_pair(key.error().text);
  if (*cert == in_force_.cert_pem && *key == in_force_.key_pem) return pair_patience_.calm();
  if (const auto checked = check_pair(*cert, *key); !checked) {
    return complain_about_pair(cert_.file + ": " + checked.error().text);
  }
  pair_patience_.calm();
  const bool first = !std::exchange(pair_problem_, "").empty();
  in_force_.cert_pem = *std::move(cert);
  in_force_.key_pem = *std::move(key);
  if (!first) ++generation_;
}

Result<http::TlsOptions> PemFiles::options() const {
  if (!pair_problem_.empty()) {
    return base::fail(base::ErrorCode::Invalid, cert_.file + ": " + pair_problem_);
  }
  return in_force_;
}

void PemFiles::complain_about_pair(const std::string& err) {
  complain(
      {.severity = Notice::Severity::Error, .message = "Loading client cert failed", .err = err},
      pair_patience_);
}

void PemFiles::complain(const Notice& notice, Patience& patience) {
  if (patience.is_over(notice.message + notice.err, clocks_.steady())) tell_(notice);
}

}  // namespace kube
