#include "kernel/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>

#include "base/fd.h"
#include "base/text.h"
#include "kernel/syscall_filter.h"
#include "kernel/sysctl.h"

namespace kernel {
namespace {

using base::Result;
using Clock = std::chrono::steady_clock;

constexpr const char* kNames[] = {"CHOWN",
                                  "DAC_OVERRIDE",
                                  "DAC_READ_SEARCH",
                                  "FOWNER",
                                  "FSETID",
                                  "KILL",
                                  "SETGID",
                                  "SETUID",
                                  "SETPCAP",
                                  "LINUX_IMMUTABLE",
                                  "NET_BIND_SERVICE",
                                  "NET_BROADCAST",
                                  "NET_ADMIN",
                                  "NET_RAW",
                                  "IPC_LOCK",
                                  "IPC_OWNER",
                                  "SYS_MODULE",
                                  "SYS_RAWIO",
                                  "SYS_CHROOT",
                                  "SYS_PTRACE",
                                  "SYS_PACCT",
                                  "SYS_ADMIN",
                                  "SYS_BOOT",
                                  "SYS_NICE",
                                  "SYS_RESOURCE",
                                  "SYS_TIME",
                                  "SYS_TTY_CONFIG",
                                  "MKNOD",
                                  "LEASE",
                                  "AUDIT_WRITE",
                                  "AUDIT_CONTROL",
                                  "SETFCAP",
                                  "MAC_OVERRIDE",
                                  "MAC_ADMIN",
                                  "SYSLOG",
                                  "WAKE_ALARM",
                                  "BLOCK_SUSPEND",
                                  "AUDIT_READ",
                                  "PERFMON",
                                  "BPF",
                                  "CHECKPOINT_RESTORE"};

// The sets of the calling thread, as capget and capset have them: low half, high half.
class ThreadSets {
 public:
  bool read() { return ::syscall(SYS_capget, &header_, halves_.data()) == 0; }
  bool write() { return ::syscall(SYS_capset, &header_, halves_.data()) == 0; }

  Capabilities permitted() const {
    return Capabilities(uint64_t{halves_[1].permitted} << 32 | halves_[0].permitted);
  }
  void limit_effective(Capabilities to) {
    for (size_t i = 0; i < halves_.size(); ++i)
      halves_[i].effective &= half(to, i);
  }
  void limit_all(Capabilities to) {
    limit_effective(to);
    for (size_t i = 0; i < halves_.size(); ++i) {
      halves_[i].permitted &= half(to, i);
      halves_[i].inheritable &= half(to, i);
    }
  }

 private:
  static uint32_t half(Capabilities set, size_t i) {
    return static_cast<uint32_t>(set.bits() >> (32 * i));
  }

  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> halves_{};
};

// ---- One thread

// Runs in a signal handler, too: system calls only. Each step does what it may; the sets that result
// are looked at afterwards.
void reduce_this_thread(Capabilities keep) {
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  // Needs CAP_SETPCAP. Where that is missing, no_new_privs alone keeps children from gaining any.
  for (int number = 0; ::prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0; ++number) {
    if (!keep.has(number)) ::prctl(PR_CAPBSET_DROP, number, 0, 0, 0);
  }
  // Ambient capabilities follow the others down. Those that are left stay: without root, children
  // such as iptables have theirs from there.
  ThreadSets sets;
  if (!sets.read()) return;
  sets.limit_all(keep);
  sets.write();
}

// ---- The other threads

// What a thread may do, as the kernel tells it; nothing if the thread is gone.
std::optional<std::string> state_of_thread(const std::string& folder) {
  const auto status = read_small_file(folder + "/status");
  if (!status) return std::nullopt;
  std::string state;
  for (const auto line : base::split(*status, '\n')) {
    if (line.starts_with("Cap") || line.starts_with("NoNewPrivs")) state.append(line) += '\n';
  }
  return state;
}

// The handler's. Written before the first signal is sent.
std::atomic<uint64_t> told_to_keep{0};
sem_t told;

void on_signal(int) {
  const int before = errno;
  reduce_this_thread(Capabilities(told_to_keep.load()));
  ::sem_post(&told);
  errno = before;
}

// Tells all other threads to do what this one has done. SIGURG, as it is ignored by default: one that
// arrives late does no harm.
class Broadcast {
 public:
  explicit Broadcast(Capabilities keep) {
    told_to_keep = keep.bits();
    ::sem_init(&told, 0, 0);
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGURG, &action, &before_);
  }
  ~Broadcast() { ::sigaction(SIGURG, &before_, nullptr); }
  Broadcast(const Broadcast&) = delete;
  Broadcast& operator=(const Broadcast&) = delete;

  // The number of threads, once all are like this one.
  Result<size_t> run() {
    const auto deadline = Clock::now() + std::chrono::seconds(2);
    const pid_t self = static_cast<pid_t>(::syscall(SYS_gettid));
    const auto wanted = state_of_thread(kTasks + std::to_string(self));
    if (!wanted) return base::fail_errno(kTasks + std::to_string(self));
    while (true) {
      size_t threads = 0;
      // Each round looks at all of them: others may have come from a thread that was not told yet.
      const std::vector<pid_t> others = TRY(different_from(*wanted, threads));
      if (others.empty()) return threads;
      if (Clock::now() >= deadline)
        return base::fail(base::ErrorCode::Timeout, "thread " + std::to_string(others.front()) +
                                                        " has not given up its capabilities");
      for (const pid_t thread : others)
        ::syscall(SYS_tgkill, ::getpid(), thread, SIGURG);
      for (size_t i = 0; i < others.size(); ++i)
        wait_for_one();
    }
  }

 private:
  static Result<std::vector<pid_t>> different_from(const std::string& wanted, size_t& threads) {
    std::vector<pid_t> found;
    std::error_code error;
    for (const auto& task : std::filesystem::directory_iterator(kTasks, error)) {
      const auto state = state_of_thread(task.path().string());
      if (!state) continue;
      ++threads;
      const auto id = base::parse_number<pid_t>(task.path().filename().string());
      if (*state != wanted && id) found.push_back(*id);
    }
    if (error) return std::unexpected(base::errno_error(kTasks, error.value()));
    return found;
  }

  // Not for ever: a thread may have ended instead of answering.
  static void wait_for_one() {
    timespec until{};
    ::clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 10'000'000;
    if (until.tv_nsec >= 1'000'000'000) {
      until.tv_nsec -= 1'000'000'000;
      ++until.tv_sec;
    }
    ::sem_clockwait(&told, CLOCK_MONOTONIC, &until);
  }

  static inline const std::string kTasks = "/proc/self/task/";
  struct sigaction before_{};
};

// ---- Files

// The calling thread does without some of its capabilities for a while.
class Lowered {
 public:
  explicit Lowered(Capabilities to) {
    active_ = before_.read();
    ThreadSets sets = before_;
    sets.limit_effective(to);
    if (active_) sets.write();
  }
  ~Lowered() {
    if (active_) before_.write();
  }
  Lowered(const Lowered&) = delete;
  Lowered& operator=(const Lowered&) = delete;

 private:
  ThreadSets before_;
  bool active_ = false;
};

bool may_read(const std::string& path) {
  const base::Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  return fd || (errno != EACCES && errno != EPERM);
}

bool may_read_all(const std::vector<std::string>& paths) {
  return std::ranges::all_of(paths, may_read);
}

// The paths, and the files in those that are folders.
std::vector<std::string> with_content(const std::vector<std::string>& paths) {
  std::vector<std::string> out = paths;
  for (const auto& path : paths) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path, error))
      out.push_back(entry.path().string());
  }
  return out;
}

}  // namespace

std::string Capabilities::str() const {
  std::string out;
  for (int number = 0; number < 64; ++number) {
    if (!has(number)) continue;
    if (!out.empty()) out += ',';
    const auto index = static_cast<size_t>(number);
    out += index < std::size(kNames) ? kNames[index] : std::to_string(number);
  }
  return out.empty() ? "none" : out;
}

Result<Capabilities> permitted_capabilities() {
  ThreadSets sets;
  if (!sets.read()) return base::fail_errno("capget");
  return sets.permitted();
}

Capabilities with_access_to(const std::vector<std::string>& paths, Capabilities keep) {
  std::vector<std::string> wanted = with_content(paths);
  std::erase_if(wanted, [](const auto& path) { return !may_read(path); });
  for (const auto extra :
       {Capabilities{}, Capabilities{CAP_DAC_READ_SEARCH}, Capabilities{CAP_DAC_OVERRIDE}}) {
    const Lowered lowered(keep | extra);
    if (may_read_all(wanted)) return keep | extra;
  }
  return keep;
}

Dropped drop_privileges(Capabilities keep) {
  Dropped dropped;
  reduce_this_thread(keep);
  if (const auto threads = Broadcast(keep).run()) {
    dropped.threads = *threads;
  } else {
    dropped.problems.push_back(threads.error().text);
  }
  if (const auto filter = install_syscall_filter(); !filter)
    dropped.problems.push_back(filter.error().text);
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
    dropped.problems.push_back(base::errno_error("forbid core dumps", errno).text);
  dropped.left = permitted_capabilities().value_or(Capabilities{});
  if ((dropped.left & keep) != dropped.left)
    dropped.problems.push_back("capabilities that are not needed: " + dropped.left.str());
  return dropped;
}

Result<uint64_t> raise_descriptor_limit() {
  // Children inherit the limit, and some close every descriptor up to it: in a container the hard
  // limit may be a thousand million.
  constexpr rlim_t kEnough = rlim_t{1} << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return base::fail_errno("RLIMIT_NOFILE");
  const rlim_t wanted = std::min(limit.rlim_max, kEnough);
  if (limit.rlim_cur >= wanted) return limit.rlim_cur;
  limit.rlim_cur = wanted;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return base::fail_errno("RLIMIT_NOFILE");
  return wanted;
}

Result<> lift_descriptor_ceiling(uint64_t at_least) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return base::fail_errno("RLIMIT_NOFILE");
  if (limit.rlim_max >= at_least) return {};
  limit.rlim_max = at_least;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return base::fail_errno("RLIMIT_NOFILE");
  return {};
}

}  // namespace kernel
