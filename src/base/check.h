// CHECK(condition) ends the process when an invariant of ours is broken. Rules stay in the kernel
// while we are restarted, so dying loudly is cheaper than limping. Never on data from outside.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                     \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
