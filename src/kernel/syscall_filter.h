// A list of system calls that neither the proxy nor any program that it starts has a use for, denied
// to this process and its children from then on.
//
// A list of what is forbidden, not of what is allowed: children include credential plugins that we
// know nothing about. It holds what administers the machine rather than its network, and what is
// known for holes in the kernel. docs/security.md gives the reasons.
#pragma once

#include <linux/filter.h>

#include <vector>

#include "base/result.h"

namespace kernel {

// The program for the kernel; empty if there is none for this processor. Pure.
std::vector<sock_filter> syscall_filter();

// Puts the filter, and no_new_privs with it, on all threads of the process. It cannot be taken off.
// Unsupported where the kernel or the processor has no such filters.
base::Result<> install_syscall_filter();

}  // namespace kernel
