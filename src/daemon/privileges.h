// What the daemon gives up once its node is set up: from then on whoever takes it over holds little
// more than the node's packet rules (docs/security.md).
#pragma once

#include <string>
#include <vector>

#include "config/options.h"

namespace proxyd {

// The files that are read again while the daemon runs: credentials, manifests. Their content may change,
// so that they must stay readable.
std::vector<std::string> files_read_again(const config::Options& options);

// Drops, for all threads, what is not needed any more, and says what is left. Never fails: what cannot
// be dropped is told. Does nothing if the options say so.
//
// Belongs on the loop thread, after the node is set up and before the sync threads start.
void drop_privileges(const config::Options& options);

}  // namespace proxyd
