// Is the kernel new enough for a mode? Texts are those of kube-proxy.
#pragma once

#include <string_view>

#include "base/result.h"

namespace proxyd {

// `release` is the text of /proc/sys/kernel/osrelease: "6.1.0-28-amd64". Pure.
base::Result<> check_nftables_kernel(std::string_view release);

// The same for this machine; any kernel will do if KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK is set.
base::Result<> check_nftables_kernel();

}  // namespace proxyd
