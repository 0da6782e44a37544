// What --profiling adds to the metrics server: /debug/pprof/ with what a C++ program can say about
// itself, and /debug/flags/v, which changes the verbosity of the log. Loop thread.
#pragma once

#include "serve/routes.h"

namespace serve {

Routes debug_routes();

}  // namespace serve
