// Giving up what the process may do.
//
// In Linux each thread has its own capabilities, and a thread that keeps some is enough to get them all
// back: what is given up here is given up by every thread (decision 0008). Threads and programs started
// later inherit that.
#pragma once

#include <linux/capability.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/result.h"

namespace kernel {

// A set of capabilities: Capabilities{CAP_NET_ADMIN, CAP_NET_RAW}.
class Capabilities {
 public:
  constexpr Capabilities() = default;
  constexpr explicit Capabilities(uint64_t bits) : bits_(bits) {}
  constexpr Capabilities(std::initializer_list<int> numbers) {
    for (const int number : numbers)
      bits_ |= uint64_t{1} << number;
  }

  constexpr bool has(int number) const { return (bits_ >> number & 1) != 0; }
  constexpr uint64_t bits() const { return bits_; }
  constexpr bool operator==(const Capabilities&) const = default;
  constexpr Capabilities operator|(Capabilities other) const {
    return Capabilities(bits_ | other.bits_);
  }
  constexpr Capabilities operator&(Capabilities other) const {
    return Capabilities(bits_ & other.bits_);
  }

  // "NET_ADMIN,NET_RAW", in the order of their numbers; "none".
  std::string str() const;

 private:
  uint64_t bits_ = 0;
};

// Those that the calling thread may use.
base::Result<Capabilities> permitted_capabilities();

// `keep`, and with it the weakest capability that is needed to go on reading all of `paths`, if one is.
// Of a folder its files count. What is not there, or cannot be read even now, needs none.
Capabilities with_access_to(const std::vector<std::string>& paths, Capabilities keep);

struct Dropped {
  Capabilities left;  // what the process has now: never more than before
  size_t threads = 0;
  std::vector<std::string> problems;  // what could not be done, and why
};

// Every thread gives up all capabilities but `keep`, and the way back: children get no more
// (no_new_privs, bounding set), and there is a filter for system calls (syscall_filter.h). No more core
// dumps: credentials are in them. Does what can be done; the rest is in `problems`.
//
// Uses SIGURG while it runs. REQUIRES: called by one thread at a time.
Dropped drop_privileges(Capabilities keep);

// Lifts the soft limit of open descriptors to the hard one, if that is sane: the new limit. Each health
// check node port of a Service has a socket of its own.
base::Result<uint64_t> raise_descriptor_limit();

// Lifts the hard limit of open descriptors to `at_least`, if it is lower. Needs CAP_SYS_RESOURCE.
base::Result<> lift_descriptor_ceiling(uint64_t at_least);

}  // namespace kernel
