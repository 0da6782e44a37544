#include "kernel/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/fd.h"

namespace kernel {
namespace {

Output run_ok(Command command) {
  auto output = run(std::move(command));
  EXPECT_TRUE(output) << output.error().text;
  return output.value_or(Output{});
}

TEST(Process, InputGoesInAndOutputComesOut) {
  Command command;
  command.argv = {"cat"};
  command.input = {"one\n", "two\n"};
  EXPECT_EQ(run_ok(std::move(command)).out, "one\ntwo\n");
}

TEST(Process, ExitStatusAndErrorTextAreToldApart) {
  Command command;
  command.argv = {"sh", "-c", "echo out; echo err >&2; exit 3"};
  const Output output = run_ok(std::move(command));
  EXPECT_EQ(output.status, 3);
  EXPECT_EQ(output.out, "out\n");
  EXPECT_EQ(output.err, "err\n");
}

TEST(Process, ManyMegabytesPassBothWaysWithoutBlocking) {
  Command command;
  command.argv = {"cat"};
  for (int i = 0; i < 40; ++i)
    command.input.emplace_back(100'000, 'x');
  size_t received = 0;
  command.on_output = [&](std::string_view bytes) { received += bytes.size(); };
  EXPECT_TRUE(run_ok(std::move(command)).ok());
  EXPECT_EQ(received, 4'000'000U);
}

TEST(Process, AProgramThatDoesNotReadIsNoTrouble) {
  ::signal(SIGPIPE, SIG_IGN);
  Command command;
  command.argv = {"true"};
  command.input.emplace_back(1'000'000, 'x');
  EXPECT_TRUE(run_ok(std::move(command)).ok());
}

TEST(Process, AMissingProgramIsNotFound) {
  Command command;
  command.argv = {"no-such-program-here"};
  const auto output = run(std::move(command));
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, base::ErrorCode::NotFound);
  EXPECT_EQ(output.error().text, "no-such-program-here: not found in PATH");
}

TEST(Process, AProgramThatClosesItsOutputAndGoesOnIsKilledToo) {
  Command command;
  command.argv = {"sh", "-c", "exec >&- 2>&-; exec sleep 1000"};
  command.timeout = std::chrono::milliseconds(300);
  const auto output = run(std::move(command));
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, base::ErrorCode::Timeout);
}

TEST(Process, AProgramThatDoesNotEndIsKilled) {
  Command command;
  command.argv = {"sleep", "1000"};
  command.timeout = std::chrono::milliseconds(20);
  const auto output = run(std::move(command));
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, base::ErrorCode::Timeout);
}

TEST(Process, DeathByASignalIsAStatus) {
  Command command;
  command.argv = {"sh", "-c", "kill -9 $$"};
  EXPECT_EQ(run_ok(std::move(command)).status, 128 + 9);
}

TEST(Process, VariablesAreAddedToOurEnvironment) {
  Command command;
  command.argv = {"sh", "-c", "echo \"$NEW $HOME\"; env | grep -c '^HOME='; test -n \"$PATH\""};
  command.environment = {{"NEW", "first"}, {"HOME", "/here"}, {"NEW", "last=1"}};
  const Output output = run_ok(std::move(command));
  EXPECT_EQ(output.out, "last=1 /here\n1\n");
  EXPECT_EQ(output.status, 0);
}

TEST(Process, SharedErrorsAreNotCollected) {
  Command command;
  command.argv = {"sh", "-c", "echo 'a line of a test' >&2"};
  command.share_errors = true;
  EXPECT_EQ(run_ok(std::move(command)).err, "");
}

TEST(Process, StoppingKillsTheProgramAndWhatItStarted) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const base::Fd stop(ends[0]);
  const base::Fd stopper(ends[1]);
  // Both hold the end of another pipe, which closes when the last of them is dead.
  ASSERT_EQ(::pipe(ends), 0);
  const base::Fd alive(ends[0]);
  base::Fd held(ends[1]);
  Command command;
  command.argv = {"sh", "-c", "sleep 60 & echo started; wait"};
  command.own_group = true;
  command.stop = stop.get();
  command.on_output = [&](std::string_view) { EXPECT_EQ(::write(stopper.get(), "x", 1), 1); };
  const auto output = run(std::move(command));
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().text, "sh: stopped");
  held.reset();
  pollfd closed{alive.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&closed, 1, 10'000), 1) << "what it had started goes on";
}

TEST(Process, AProgramDiesWithTheProcessThatStartedIt) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const base::Fd read(ends[0]);
  base::Fd write(ends[1]);
  const pid_t parent = ::fork();
  if (parent == 0) {
    Command command;
    command.argv = {"sh", "-c", "echo $$; exec sleep 600"};
    command.on_output = [&](std::string_view number) {
      (void)!::write(write.get(), number.data(), number.size());
    };
    (void)run(std::move(command));
    ::_exit(0);
  }
  char number[16] = {};
  ASSERT_GT(::read(read.get(), number, sizeof number - 1), 0);
  const base::Fd program(static_cast<int>(::syscall(SYS_pidfd_open, std::atoi(number), 0)));
  ASSERT_TRUE(program);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  pollfd ended{program.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 10'000), 1) << "still running";
}

}  // namespace
}  // namespace kernel
