// The subcommands, one file each. Each returns the exit status of the process.
#pragma once

#include "cli/subcommand.h"

namespace cli {

int render(const Arguments& arguments);
int apply(const Arguments& arguments);
int diff(const Arguments& arguments);

}  // namespace cli
