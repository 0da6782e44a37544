#include "config/version.h"

#include "base/text.h"

namespace config {

base::Result<> check_reported_version(std::string_view version) {
  if (version == kVersion) return {};
  const std::string_view number = version.substr(0, version.find_first_of("-+"));
  const std::string_view digits = number.substr(1);
  if (!number.starts_with('v') || digits.empty() ||
      digits.find_first_not_of("0123456789.") != std::string_view::npos) {
    return base::fail(base::ErrorCode::Invalid,
                      "could not parse " + base::quote(version) + " as version");
  }
  if (base::split(digits, '.').size() != 3 || digits.find("..") != std::string_view::npos) {
    return base::fail(base::ErrorCode::Invalid, "illegal version string " + base::quote(version));
  }
  if (number == kVersion) return {};
  return base::fail(base::ErrorCode::Invalid, "version " + base::quote(version) +
                                                  " must match major/minor/patch of default "
                                                  "version " +
                                                  base::quote(kVersion));
}

std::string version_info(std::string_view version) {
#if defined(__aarch64__)
  constexpr std::string_view kPlatform = "linux/arm64";
#else
  constexpr std::string_view kPlatform = "linux/amd64";
#endif
  return "version.Info{Major:\"1\", Minor:\"36\", EmulationMajor:\"\", EmulationMinor:\"\", "
         "MinCompatibilityMajor:\"\", MinCompatibilityMinor:\"\", GitVersion:" +
         base::quote(version) +
         ", GitCommit:\"\", GitTreeState:\"\", BuildDate:\"\", GoVersion:\"none (C++)\", "
         "Compiler:" +
         base::quote("g++ " __VERSION__) + ", Platform:" + base::quote(kPlatform) + "}";
}

}  // namespace config
