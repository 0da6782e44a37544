// Is the kernel new enough for a mode? Texts are those of kube-proxy.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace proxyd {

// `release` is the text of /proc/sys/kernel/osrelease: "6.1.0-28-amd64". Pure.
base::Result<> check_nftables_kernel(std::string_view release);

// The same for this machine; any kernel will do if KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK is set.
base::Result<> check_nftables_kernel();

// May a connection of IPVS be taken up again by another from the same port (conn_reuse_mode 0)? Kernels before 4.1 know
// no such setting, those from 5.9 on need none. Nothing: `release` is no version. Pure.
enum class ConnectionReuse : uint8_t { NotKnown, Needed, NotNeeded };
std::optional<ConnectionReuse> connection_reuse(std::string_view release);

// "6.1.0-28-amd64"
base::Result<std::string> kernel_release();

}  // namespace proxyd
