#include "kernel/syscall_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

namespace kernel {
namespace {

using base::ErrorCode;
using base::Result;

#if defined(__x86_64__)
constexpr uint32_t kProcessor = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kProcessor = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kProcessor = 0;
#endif

constexpr uint32_t kDenied[] = {
    // Mounts, roots, namespaces: nothing here moves to another view of the machine.
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_unshare,
    SYS_setns,
    // Other processes: their memory and their descriptors.
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_pidfd_getfd,
    SYS_kcmp,
#if !defined(__SANITIZE_ADDRESS__)  // LeakSanitizer traces its own process at the end
    SYS_ptrace,
#endif
    // Code in the kernel.
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_bpf,
    SYS_perf_event_open,
    // Large, of no use here, and with a history of holes.
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_userfaultfd,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_fanotify_init,
    // Files past the permissions of their folders.
    SYS_open_by_handle_at,
    // The machine: its power, clock, name, disks and log.
    SYS_reboot,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_swapon,
    SYS_swapoff,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_acct,
    SYS_syslog,
    SYS_vhangup,
    SYS_nfsservctl,
    SYS_personality,
#if defined(__x86_64__)
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
    SYS_uselib,
    SYS_sysfs,
    SYS__sysctl,
    SYS_ustat,
#endif
};

constexpr uint32_t kNamespaceFlags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

constexpr uint32_t refuse(int error) {
  return SECCOMP_RET_ERRNO | (static_cast<uint32_t>(error) & SECCOMP_RET_DATA);
}

// Builds the program out of pieces that end in an answer or fall through to the next piece, so that no
// jump reaches further than its own piece.
class Builder {
 public:
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  void load_number() { load(offsetof(seccomp_data, nr)); }
  // Little-endian: the low half of an argument comes first, and the kernel looks at no more of those
  // that we check.
  void load_first_argument() { load(offsetof(seccomp_data, args)); }

  void answer(uint32_t action) { add(BPF_RET | BPF_K, action); }
  void answer_if(uint16_t comparison, uint32_t value, uint32_t action) {
    add(BPF_JMP | comparison | BPF_K, value, 0, 1);
    answer(action);
  }
  void skip_unless_equal(uint32_t value, uint8_t count) {
    add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count);
  }
  void skip_if_equal(uint32_t value, uint8_t count) {
    add(BPF_JMP | BPF_JEQ | BPF_K, value, count, 0);
  }

  std::vector<sock_filter> take() { return std::move(program_); }

 private:
  void add(uint16_t code, uint32_t value, uint8_t if_true = 0, uint8_t if_false = 0) {
    program_.push_back({code, if_true, if_false, value});
  }

  std::vector<sock_filter> program_;
};

// Programs for another processor number their calls differently, and would slip through.
void check_processor(Builder& builder) {
  builder.load(offsetof(seccomp_data, arch));
  builder.skip_if_equal(kProcessor, 1);
  builder.answer(SECCOMP_RET_KILL_PROCESS);
  builder.load_number();
#if defined(__x86_64__)
  builder.answer_if(BPF_JGE, __X32_SYSCALL_BIT, refuse(EPERM));
#endif
}

void check_new_process(Builder& builder) {
  // Its flags are in memory, where a filter cannot look. Callers fall back to clone, whose are not.
  builder.answer_if(BPF_JEQ, SYS_clone3, refuse(ENOSYS));
  builder.skip_unless_equal(SYS_clone, 4);
  builder.load_first_argument();
  builder.answer_if(BPF_JSET, kNamespaceFlags, refuse(EPERM));
  builder.answer(SECCOMP_RET_ALLOW);
}

// CAP_NET_RAW, which iptables-legacy needs, would let packet sockets listen to the whole node.
void check_socket(Builder& builder) {
  constexpr std::array kFamilies{AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};
  for (const uint32_t call : {SYS_socket, SYS_socketpair}) {
    builder.skip_unless_equal(call, 2 + 2 * kFamilies.size());
    builder.load_first_argument();
    for (const int family : kFamilies)
      builder.answer_if(BPF_JEQ, static_cast<uint32_t>(family), SECCOMP_RET_ALLOW);
    builder.answer(refuse(EAFNOSUPPORT));
  }
}

}  // namespace

std::vector<sock_filter> syscall_filter() {
  if (kProcessor == 0) return {};
  Builder builder;
  check_processor(builder);
  for (const uint32_t call : kDenied)
    builder.answer_if(BPF_JEQ, call, refuse(EPERM));
  check_new_process(builder);
  check_socket(builder);
  builder.answer(SECCOMP_RET_ALLOW);
  return builder.take();
}

Result<> install_syscall_filter() {
  std::vector<sock_filter> instructions = syscall_filter();
  if (instructions.empty())
    return base::fail(ErrorCode::Unsupported, "no system call filter for this processor");
  const sock_fprog program{static_cast<uint16_t>(instructions.size()), instructions.data()};
  // Without it only an administrator may filter, as a program with the set-uid bit would inherit it.
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return base::fail_errno("no_new_privs");
  const long done =
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (done < 0) return base::fail_errno("system call filter");
  if (done > 0) {
    return base::fail(ErrorCode::Unsupported, "system call filter: thread " + std::to_string(done) +
                                                  " has a filter of its own");
  }
  return {};
}

}  // namespace kernel
