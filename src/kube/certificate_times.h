// From when until when a certificate is good. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace kube {

struct CertificateTimes {
  std::chrono::sys_seconds not_before;
  std::chrono::sys_seconds not_after;
};

// Of the first certificate of a PEM text; nothing if there is none.
std::optional<CertificateTimes> certificate_times(const std::string& pem);

}  // namespace kube
