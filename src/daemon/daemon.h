// The daemon: a source of Services in front, the kernel behind, and the wiring between.
#pragma once

#include <string>

#include "base/result.h"
#include "config/options.h"

namespace proxyd {

// Runs until something ends it; the error says what. Only --init-only returns success.
base::Result<> run(const config::Options& options);

}  // namespace proxyd
