#include "daemon/kernel_version.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/text.h"
#include "kernel/sysctl.h"

namespace proxyd {
namespace {

using base::ErrorCode;
using base::Result;

constexpr const char* kSkipCheck = "KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK";
constexpr const char* kCannotTell = "could not check kernel version";

using Version = std::vector<uint64_t>;

// "6.1.0-28-amd64" -> 6, 1, 0
Result<Version> parse_version(std::string_view release) {
  const std::string_view text = base::trim(release);
  const std::string_view numbers = text.substr(0, text.find_first_not_of("0123456789."));
  Version version;
  for (const std::string_view part : base::split(numbers, '.')) {
    const auto number = base::parse_number<uint64_t>(part);
    if (!number) break;  // "5.10.-rc1"
    version.push_back(*number);
  }
  if (version.size() < 2)
    return base::fail(ErrorCode::Invalid, base::quote(text) + " is no version");
  return version;
}

}  // namespace

Result<> check_nftables_kernel(std::string_view release) {
  const Version version = TRY_CONTEXT(parse_version(release), kCannotTell);
  if (version >= Version{5, 13}) return {};
  return base::fail(ErrorCode::Unsupported,
                    "kube-proxy in nftables mode requires kernel 5.13 or later");
}

Result<> check_nftables_kernel() {
  const char* skip = std::getenv(kSkipCheck);
  if (skip != nullptr && *skip != '\0') return {};
  return check_nftables_kernel(TRY_CONTEXT(kernel_release(), kCannotTell));
}

std::optional<ConnectionReuse> connection_reuse(std::string_view release) {
  const auto version = parse_version(release);
  if (!version) return std::nullopt;
  if (*version < Version{4, 1}) return ConnectionReuse::NotKnown;
  return *version < Version{5, 9} ? ConnectionReuse::Needed : ConnectionReuse::NotNeeded;
}

Result<std::string> kernel_release() {
  return kernel::read_small_file("/proc/sys/kernel/osrelease");
}

}  // namespace proxyd
