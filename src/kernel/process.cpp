#include "kernel/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <map>
#include <utility>

#include "base/fd.h"

namespace kernel {
namespace {

using base::ErrorCode;
using base::Fd;
using base::Result;
using Clock = std::chrono::steady_clock;

constexpr size_t kMaxErrorText = 64 * 1024;

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return base::fail_errno("pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// Our environment with some variables added, as execve wants it. Of one name the last counts.
class ChildEnvironment {
 public:
  explicit ChildEnvironment(const Command& command) {
    std::map<std::string_view, std::string_view> added;
    for (const auto& [name, value] : command.environment)
      added.insert_or_assign(name, value);
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string_view text(*variable);
      if (!added.contains(text.substr(0, text.find('=')))) pointers_.push_back(*variable);
    }
    texts_.reserve(added.size());  // pointers into it must stay
    for (const auto& [name, value] : added) {
      texts_.push_back(std::string(name) + "=" + std::string(value));
      pointers_.push_back(texts_.back().data());
    }
    pointers_.push_back(nullptr);
  }

  char** get() { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

// What the child needs to become the program; made before it exists.
struct Launch {
  const Command& command;
  char** argv;
  char** environment;
  int in;
  int out;
  int err;
  pid_t parent;
  sigset_t no_signals;
};

// The child starts with default dispositions, whatever we ignore.
void reset_signals(const Launch& launch) {
  struct sigaction by_default{};
  by_default.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number)
    ::sigaction(number, &by_default, nullptr);
  ::sigprocmask(SIG_SETMASK, &launch.no_signals, nullptr);
}

// In the child, which shares our memory until it is the program or has ended. Returns why it is not the program.
int become(const Launch& launch) {
  // A program must not outlive us: the rules that it writes would be written behind the back of the next
  // daemon. Tied to the thread that has started it, which waits for its end.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launch.parent) return ESRCH;
  if (launch.command.own_group) ::setpgid(0, 0);
  if (!launch.command.share_input && ::dup2(launch.in, STDIN_FILENO) < 0) return errno;
  if (::dup2(launch.out, STDOUT_FILENO) < 0) return errno;
  if (!launch.command.share_errors && ::dup2(launch.err, STDERR_FILENO) < 0) return errno;
  reset_signals(launch);
  ::execvpe(launch.argv[0], launch.argv, launch.environment);
  return errno;
}

// posix_spawn with one thing that it cannot do. vfork for the same reason as there: the page tables of a large
// process are not copied, and an error comes back in plain memory.
pid_t vfork_and_become(const Launch& launch, volatile int& error) {
  const pid_t pid = ::vfork();
  if (pid != 0) return pid;
  error = become(launch);
  ::_exit(127);
}

Result<pid_t> spawn(const Command& command, int in, int out, int err) {
  std::vector<char*> argv;
  for (const auto& word : command.argv)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ChildEnvironment environment(command);
  Launch launch{.command = command,
                .argv = argv.data(),
                .environment = environment.get(),
                .in = in,
                .out = out,
                .err = err,
                .parent = ::getpid(),
                .no_signals = {}};
  sigemptyset(&launch.no_signals);
  // No handler of ours may run in the child.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  volatile int error = 0;
  const pid_t pid = vfork_and_become(launch, error);
  const int not_made = pid < 0 ? errno : 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (not_made != 0)
    return std::unexpected(base::errno_error("start " + command.argv[0], not_made));
  if (error == 0) return pid;
  ::waitpid(pid, nullptr, 0);
  if (error == ENOENT)
    return base::fail(ErrorCode::NotFound, command.argv[0] + ": not found in PATH");
  return std::unexpected(base::errno_error("start " + command.argv[0], error));
}

// Programs read and write 4 KB at a time, and the kernel wakes us for each: 33 MB of rules would be 8,000 turns. A
// large pipe is looked at again only now and then, well before any program has emptied or filled it. Where
// it is refused, the pipe is just smaller.
constexpr int kPipeBytes = 1 << 20;
constexpr std::chrono::milliseconds kPause{10};
constexpr ssize_t kMoreToCome = 4096;

// Feeds and drains the three pipes of one child until it closes its output.
class Conversation {
 public:
  Conversation(Command& command, Fd in, Fd out, Fd err, Output& result)
      : command_(command),
        in_(std::move(in)),
        out_(std::move(out)),
        err_(std::move(err)),
        result_(result) {
    for (const Fd* fd : {&in_, &out_, &err_})
      ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
    if (command_.input.empty()) in_.reset();
    roomy_in_ = in_ && ::fcntl(in_.get(), F_SETPIPE_SZ, kPipeBytes) >= kPipeBytes;
    roomy_out_ = ::fcntl(out_.get(), F_SETPIPE_SZ, kPipeBytes) >= kPipeBytes;
  }

  enum class End { Closed, OutOfTime, Stopped };

  End run(Clock::time_point deadline) {
    while (out_ || err_) {
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      if (left.count() <= 0) return End::OutOfTime;
      const bool full = std::exchange(filled_, false) && in_;
      const bool empty = std::exchange(emptied_, false) && out_;
      if (full || empty) left = std::min(left, kPause);
      std::array<pollfd, 4> fds{pollfd{full ? -1 : in_.get(), POLLOUT, 0},
                                pollfd{empty ? -1 : out_.get(), POLLIN, 0},
                                pollfd{err_.get(), POLLIN, 0}, pollfd{command_.stop, POLLIN, 0}};
      if (::poll(fds.data(), fds.size(), static_cast<int>(left.count())) < 0 && errno != EINTR)
        return End::OutOfTime;
      if (fds[3].revents != 0) return End::Stopped;
      if (fds[0].revents != 0) write_some();
      if (fds[1].revents != 0) read_some(out_, true);
      if (fds[2].revents != 0) read_some(err_, false);
    }
    return End::Closed;
  }

 private:
  void write_some() {
    while (next_ < command_.input.size()) {
      std::string& piece = command_.input[next_];
      const ssize_t written = ::write(in_.get(), piece.data() + offset_, piece.size() - offset_);
      if (written < 0) {
        if (errno == EINTR) continue;
        if (errno == EAGAIN) {
          filled_ = roomy_in_;
        } else {
          in_.reset();  // it stopped reading; its exit status tells why
        }
        return;
      }
      offset_ += static_cast<size_t>(written);
      if (offset_ < piece.size()) continue;
      std::string().swap(piece);
      ++next_;
      offset_ = 0;
    }
    in_.reset();
  }

  void read_some(Fd& fd, bool is_output) {
    std::array<char, 65536> buffer;
    const ssize_t size = ::read(fd.get(), buffer.data(), buffer.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) {
      fd.reset();
      return;
    }
    const std::string_view bytes(buffer.data(), static_cast<size_t>(size));
    const bool all = bytes.size() < buffer.size();
    if (is_output) emptied_ = roomy_out_ && all && size >= kMoreToCome;
    if (!is_output) {
      result_.err += bytes.substr(0, kMaxErrorText - std::min(kMaxErrorText, result_.err.size()));
    } else if (command_.on_output) {
      command_.on_output(bytes);
    } else {
      result_.out += bytes;
    }
  }

  Command& command_;
  Fd in_, out_, err_;
  Output& result_;
  size_t next_ = 0;         // piece of input
  size_t offset_ = 0;       // into that piece
  bool roomy_in_ = false;   // the pipe is large
  bool filled_ = false;     // and was filled just now
  bool roomy_out_ = false;  // the pipe is large
  bool emptied_ = false;    // and was emptied just now
};

// A program may close its output and go on; its end has the same limits.
Conversation::End wait_for_exit(pid_t pid, int stop, Clock::time_point deadline) {
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return Conversation::End::Closed;  // no such thing in this kernel: the caller waits
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return Conversation::End::OutOfTime;
    std::array<pollfd, 2> fds{pollfd{process.get(), POLLIN, 0}, pollfd{stop, POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), static_cast<int>(left.count())) < 0 && errno != EINTR)
      return Conversation::End::OutOfTime;
    if (fds[0].revents != 0) return Conversation::End::Closed;
    if (fds[1].revents != 0) return Conversation::End::Stopped;
  }
}

Result<int> wait_for(pid_t pid, const std::string& program) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    // Without its status a failure would pass for success.
    if (errno != EINTR) return base::fail_errno("wait for " + program);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result<Output> run(Command command) {
  Pipe in = TRY(make_pipe());
  Pipe out = TRY(make_pipe());
  Pipe err = TRY(make_pipe());
  const pid_t pid = TRY(spawn(command, in.read.get(), out.write.get(), err.write.get()));
  in.read.reset();
  out.write.reset();
  err.write.reset();

  Output result;
  const auto timeout = command.timeout;
  Conversation conversation(command, std::move(in.write), std::move(out.read), std::move(err.read),
                            result);
  const auto deadline = Clock::now() + timeout;
  Conversation::End end = conversation.run(deadline);
  if (end == Conversation::End::Closed) end = wait_for_exit(pid, command.stop, deadline);
  if (end != Conversation::End::Closed) {
    ::kill(command.own_group ? -pid : pid, SIGKILL);
    (void)wait_for(pid, command.argv[0]);
    if (end == Conversation::End::Stopped) {
      return base::fail(ErrorCode::Busy, command.argv[0] + ": stopped");
    }
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout).count();
    return base::fail(ErrorCode::Timeout,
                      command.argv[0] + ": no end after " + std::to_string(seconds) + " s, killed");
  }
  result.status = TRY(wait_for(pid, command.argv[0]));
  return result;
}

}  // namespace kernel
