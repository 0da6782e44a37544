#include "kernel/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "kernel/process.h"
#include "kernel/syscall_filter.h"

namespace kernel {
namespace {

constexpr Capabilities kNetwork{CAP_NET_ADMIN, CAP_NET_RAW};

// Runs in a process of its own, as what is given up does not come back; its words come back here.
std::string in_child(const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string said = body();
    const bool written = ::write(ends[1], said.data(), said.size()) >= 0;
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  std::array<char, 4096> buffer;
  for (ssize_t size; (size = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    said.append(buffer.data(), static_cast<size_t>(size));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status)) : said;
}

// 0, or the error of a call.
std::string outcome(long result) { return result >= 0 ? "fine" : ::strerrorname_np(errno); }

std::string filtered(const std::function<long()>& call) {
  return in_child([&] {
    if (const auto done = install_syscall_filter(); !done) return done.error().text;
    return outcome(call());
  });
}

// A line of the status of every thread of this process, each once.
std::string of_all_threads(const std::string& key) {
  std::string values;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with(key + ":")) continue;
      const std::string value = line.substr(line.find_last_of(" \t") + 1) + ";";
      if (!values.contains(value)) values += value;
    }
  }
  return values;
}

// Threads that are there until the process ends.
void start_idle_threads(int count) {
  static std::mutex mutex;
  static std::condition_variable never;
  for (int i = 0; i < count; ++i) {
    std::thread([] {
      std::unique_lock lock(mutex);
      never.wait(lock, [] { return false; });
    }).detach();
  }
}

bool is_root() { return ::geteuid() == 0; }

TEST(Capabilities, AreNamedInOrder) {
  EXPECT_EQ((Capabilities{CAP_NET_RAW, CAP_NET_ADMIN}.str()), "NET_ADMIN,NET_RAW");
  EXPECT_EQ((Capabilities{CAP_CHOWN, CAP_CHECKPOINT_RESTORE}.str()), "CHOWN,CHECKPOINT_RESTORE");
  EXPECT_EQ(Capabilities{}.str(), "none");
  EXPECT_EQ(Capabilities(uint64_t{1} << 63).str(), "63");
}

TEST(DropPrivileges, EveryThreadGivesUpTheSame) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  const std::string said = in_child([] {
    start_idle_threads(5);
    const Dropped dropped = drop_privileges(kNetwork);
    std::string text = "threads=" + std::to_string(dropped.threads) + " left=" + dropped.left.str();
    for (const auto& problem : dropped.problems)
      text += " problem: " + problem;
    for (const char* key :
         {"CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp"})
      text += std::string(" ") + key + "=" + of_all_threads(key);
    return text;
  });
  const std::string kept = "0000000000003000;";
  const std::string none = "0000000000000000;";
  EXPECT_EQ(said, "threads=6 left=NET_ADMIN,NET_RAW CapPrm=" + kept + " CapEff=" + kept +
                      " CapBnd=" + kept + " CapInh=" + none + " CapAmb=" + none +
                      " NoNewPrivs=1; Seccomp=2;");
}

TEST(DropPrivileges, ThreadsThatComeLaterHaveNoMore) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  EXPECT_EQ(in_child([] {
              drop_privileges(kNetwork);
              start_idle_threads(2);
              return of_all_threads("CapPrm") + of_all_threads("Seccomp");
            }),
            "0000000000003000;2;");
}

TEST(DropPrivileges, ProgramsGetWhatIsLeft) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  EXPECT_EQ(in_child([] {
              drop_privileges(kNetwork);
              Command command;
              command.argv = {"sed", "-n", "s/^CapEff:\t//p", "/proc/self/status"};
              const auto output = run(std::move(command));
              return output ? output->out : output.error().text;
            }),
            "0000000000003000\n");
}

// Where the process is not root, programs have theirs from the ambient set.
void make_ambient(Capabilities wanted) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
  ::syscall(SYS_capget, &header, sets.data());
  sets[0].inheritable = static_cast<uint32_t>(wanted.bits());
  ::syscall(SYS_capset, &header, sets.data());
  for (int number = 0; number < 32; ++number) {
    if (wanted.has(number)) ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number, 0, 0);
  }
}

TEST(DropPrivileges, AmbientCapabilitiesThatAreNeededStay) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  EXPECT_EQ(in_child([] {
              make_ambient({CAP_NET_ADMIN, CAP_SYS_MODULE});
              const std::string before = of_all_threads("CapAmb");
              drop_privileges(kNetwork);
              return before + of_all_threads("CapAmb");
            }),
            "0000000000011000;0000000000001000;");
}

TEST(DropPrivileges, WhatIsNotThereIsNoProblem) {
  const std::string said = in_child([] {
    drop_privileges({});
    const Dropped dropped = drop_privileges(kNetwork);
    return dropped.left.str() + (dropped.problems.empty() ? "" : " " + dropped.problems.front());
  });
  EXPECT_EQ(said, "none");
}

TEST(DropPrivileges, ASignalThatIsBlockedIsToldInTime) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  const std::string said = in_child([] {
    sigset_t urgent;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    ::pthread_sigmask(SIG_BLOCK, &urgent, nullptr);
    start_idle_threads(1);
    const Dropped dropped = drop_privileges(kNetwork);
    return dropped.problems.empty() ? "no problem" : dropped.problems.front();
  });
  EXPECT_TRUE(said.ends_with("has not given up its capabilities")) << said;
}

TEST(DropPrivileges, LeavesNoCore) {
  EXPECT_EQ(in_child([] {
              drop_privileges(kNetwork);
              return std::to_string(::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
            }),
            "0");
}

TEST(SyscallFilter, DeniesWhatAdministersTheMachine) {
  EXPECT_EQ(filtered([] { return ::mount("none", "/nowhere", "tmpfs", 0, nullptr); }), "EPERM");
  EXPECT_EQ(filtered([] { return ::umount2("/nowhere", 0); }), "EPERM");
  EXPECT_EQ(filtered([] { return ::unshare(CLONE_NEWNS); }), "EPERM");
  EXPECT_EQ(filtered([] { return ::setns(-1, 0); }), "EPERM");
  EXPECT_EQ(filtered([] { return ::chroot("/"); }), "EPERM");
  EXPECT_EQ(filtered([] { return ::syscall(SYS_bpf, 0, nullptr, 0); }), "EPERM");
  EXPECT_EQ(filtered([] { return ::syscall(SYS_init_module, nullptr, 0, ""); }), "EPERM");
  EXPECT_EQ(filtered([] { return ::syscall(SYS_io_uring_setup, 1, nullptr); }), "EPERM");
  EXPECT_EQ(filtered([] { return ::syscall(SYS_keyctl, 0, 0, 0, 0, 0); }), "EPERM");
}

TEST(SyscallFilter, NewProcessesAreFineInTheSameNamespacesOnly) {
  const auto clone = [](unsigned long flags) {
    const long child = ::syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (child == 0) ::_exit(0);
    return child;
  };
  EXPECT_EQ(filtered([&] { return clone(0); }), "fine");
  EXPECT_EQ(filtered([&] { return clone(CLONE_NEWUSER); }), "EPERM");
  EXPECT_EQ(filtered([&] { return clone(CLONE_NEWNET); }), "EPERM");
  EXPECT_EQ(filtered([] {
              clone_args arguments{};
              arguments.exit_signal = SIGCHLD;
              const long child = ::syscall(SYS_clone3, &arguments, sizeof arguments);
              if (child == 0) ::_exit(0);
              return child;
            }),
            "ENOSYS");
}

TEST(SyscallFilter, SocketsAreOfTheFamiliesThatWeSpeak) {
  const auto open = [](int family, int type) {
    return filtered([=] { return ::socket(family, type, 0); });
  };
  EXPECT_EQ(open(AF_INET, SOCK_STREAM), "fine");
  EXPECT_EQ(open(AF_INET6, SOCK_DGRAM), "fine");
  EXPECT_EQ(open(AF_UNIX, SOCK_STREAM), "fine");
  EXPECT_EQ(open(AF_NETLINK, SOCK_RAW), "fine");
  EXPECT_EQ(open(AF_PACKET, SOCK_RAW), "EAFNOSUPPORT");
  EXPECT_EQ(open(AF_VSOCK, SOCK_STREAM), "EAFNOSUPPORT");
  EXPECT_EQ(filtered([] {
              std::array<int, 2> pair{};
              return ::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data());
            }),
            "fine");
}

#if defined(__x86_64__)
TEST(SyscallFilter, TheOtherNumberingOfTheSameCallsIsShut) {
  EXPECT_EQ(filtered([] { return ::syscall(__X32_SYSCALL_BIT | SYS_getpid); }), "EPERM");
  EXPECT_EQ(filtered([] {
              long result;  // getpid, as a 32-bit program calls it
              __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory");
              return result;
            }),
            "killed by signal " + std::to_string(SIGSYS));
}
#endif

TEST(SyscallFilter, ProgramsAndThreadsStart) {
  EXPECT_EQ(in_child([] {
              if (const auto done = install_syscall_filter(); !done) return done.error().text;
              std::string said;
              std::thread([&] { said = "thread "; }).join();
              Command command;
              command.argv = {"sh", "-c", "echo program"};
              const auto output = run(std::move(command));
              return said + (output ? output->out : output.error().text);
            }),
            "thread program\n");
}

// A file that belongs to somebody else and is closed to all others, in a folder of its own.
class FilesOfOthers : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_root()) GTEST_SKIP() << "needs root";
    std::string pattern = testing::TempDir() + "privileges-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    ::chmod(folder_.c_str(), 0755);
    open_ = make("open", 0, 0600);
    closed_ = make("closed", 65534, 0600);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  std::string make(const std::string& name, uid_t owner, mode_t mode) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "secret";
    EXPECT_EQ(::chown(path.c_str(), owner, owner), 0);
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }

  std::string folder_;
  std::string open_;
  std::string closed_;
};

TEST_F(FilesOfOthers, RootNeedsNothingForItsOwn) {
  EXPECT_EQ(with_access_to({open_}, kNetwork), kNetwork);
}

TEST_F(FilesOfOthers, KeepTheWeakerCapability) {
  EXPECT_EQ(with_access_to({open_, closed_}, kNetwork).str(), "DAC_READ_SEARCH,NET_ADMIN,NET_RAW");
}

TEST_F(FilesOfOthers, KeepTheStrongerOneIfThatIsAllThereIs) {
  EXPECT_EQ(in_child([&] {
              drop_privileges(kNetwork | Capabilities{CAP_DAC_OVERRIDE});
              return with_access_to({closed_}, kNetwork).str();
            }),
            "DAC_OVERRIDE,NET_ADMIN,NET_RAW");
}

TEST_F(FilesOfOthers, CountInAFolder) {
  EXPECT_EQ(with_access_to({folder_}, kNetwork).str(), "DAC_READ_SEARCH,NET_ADMIN,NET_RAW");
}

TEST_F(FilesOfOthers, WhatCannotBeReadAnywayNeedsNothing) {
  EXPECT_EQ(with_access_to({folder_ + "/none"}, kNetwork), kNetwork);
  EXPECT_EQ(in_child([&] {
              drop_privileges(kNetwork);
              return with_access_to({closed_}, kNetwork).str();
            }),
            "NET_ADMIN,NET_RAW");
}

TEST_F(FilesOfOthers, LookingTakesNothingAway) {
  const auto before = permitted_capabilities();
  with_access_to({closed_}, kNetwork);
  EXPECT_EQ(before.value(), permitted_capabilities().value());
  EXPECT_TRUE(std::ifstream(closed_).good());
}

TEST(DescriptorLimit, RisesToTheHardOneWithinReason) {
  EXPECT_EQ(in_child([] {
              rlimit limit{64, 512};
              ::setrlimit(RLIMIT_NOFILE, &limit);
              const auto raised = raise_descriptor_limit();
              ::getrlimit(RLIMIT_NOFILE, &limit);
              return std::to_string(raised.value()) + " " + std::to_string(limit.rlim_cur);
            }),
            "512 512");
}

TEST(DescriptorLimit, HasACeilingThatOnlyThePrivilegedLift) {
  EXPECT_EQ(in_child([] {
              rlimit limit{64, 512};
              ::setrlimit(RLIMIT_NOFILE, &limit);
              const auto lifted = lift_descriptor_ceiling(1024);
              ::getrlimit(RLIMIT_NOFILE, &limit);
              return (lifted ? limit.rlim_max == 1024 : limit.rlim_max == 512) &&
                             lift_descriptor_ceiling(100).has_value()
                         ? "good"
                         : "bad";
            }),
            "good");
}

}  // namespace
}  // namespace kernel
