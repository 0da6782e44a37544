#include "kernel/process.h"

#include <signal.h>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace kernel
