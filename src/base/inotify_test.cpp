#include "base/inotify.h"

#include <errno.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace base {
namespace {

constexpr const char* kNoNamespace = "(no user namespace)";

// What it returns in a process of its own.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) return "(no pipe)";
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = body();
    const bool done = ::write(write_end.get(), text.data(), text.size()) >= 0;
    ::_exit(done ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  write_end.reset();
  std::string text(1000, '\0');
  const ssize_t size = ::read(read_end.get(), text.data(), text.size());
  text.resize(size < 0 ? 0 : static_cast<size_t>(size));
  ::waitpid(child, nullptr, 0);
  return text;
}

// In a user namespace of its own with that limit, so that nobody else runs short.
std::string in_namespace(const std::string& limit, int value,
                         const std::function<std::string()>& body) {
  return in_child([&]() -> std::string {
    if (::unshare(CLONE_NEWUSER) != 0) return kNoNamespace;
    std::ofstream file("/proc/sys/user/" + limit);
    if (!(file << value << std::flush)) return kNoNamespace;
    return body();
  });
}

std::string open_error() {
  const auto opened = open_inotify();
  return opened ? "" : opened.error().text;
}

TEST(Inotify, OpensAnInstanceThatDoesNotBlock) {
  const auto opened = open_inotify();
  ASSERT_TRUE(opened) << opened.error().text;
  char byte = 0;
  EXPECT_LT(::read(opened->get(), &byte, 1), 0);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(Inotify, TooManyInstancesAreCalledThat) {
  const std::string said = in_namespace("max_inotify_instances", 0, open_error);
  if (said == kNoNamespace) GTEST_SKIP() << "needs user namespaces";
  EXPECT_EQ(said,
            "inotify_init1: too many open files: no inotify instance is left for this user, "
            "user.max_inotify_instances is 0");
}

TEST(Inotify, TooManyDescriptorsAreNotCalledInstances) {
  const std::string said = in_child([] {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_NOFILE, &none);
    return open_error();
  });
  EXPECT_EQ(said, "inotify_init1: too many open files");
}

TEST(Inotify, TooManyWatchesAreCalledThat) {
  const std::string said = in_namespace("max_inotify_watches", 0, []() -> std::string {
    const auto opened = open_inotify();
    if (!opened) return opened.error().text;
    if (::inotify_add_watch(opened->get(), "/", IN_CREATE) >= 0) return "";
    return watch_error("cannot watch /", errno).text;
  });
  if (said == kNoNamespace) GTEST_SKIP() << "needs user namespaces";
  EXPECT_EQ(said,
            "cannot watch /: no space left on device: no inotify watch is left for this user, "
            "user.max_inotify_watches is 0");
}

TEST(Inotify, TheLimitOfTheMachineIsNamedWhereItIsTheSmallerOne) {
  const std::string said = watch_error("x", ENOSPC).text;
  EXPECT_NE(said.find("fs.inotify.max_user_watches is "), std::string::npos) << said;
}

TEST(Inotify, OtherErrorsAreAsTheKernelSaysThem) {
  EXPECT_EQ(watch_error("cannot watch /x", EACCES).text, "cannot watch /x: permission denied");
}

}  // namespace
}  // namespace base
