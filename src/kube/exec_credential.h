// The letters between us and an exec plugin: ExecCredential of client.authentication.k8s.io, there as
// the variable KUBERNETES_EXEC_INFO, back as its standard output. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "config/kubeconfig.h"

namespace kube {

// A token, a certificate with its key (PEM), or both.
struct ExecCredential {
  std::string token;
  std::string cert;
  std::string key;
  std::optional<std::chrono::sys_seconds> expires;  // far beyond what nanoseconds can count, too
};

// REQUIRES: access.exec. `ca_pem` is empty for the system's roots.
std::string exec_info(const config::Access& access, const std::string& ca_pem, bool interactive);

// Errors as kube-proxy v1.36.4 has them; they hold nothing of the status.
base::Result<ExecCredential> parse_exec_credential(std::string_view output,
                                                   const std::string& api_version);

}  // namespace kube
