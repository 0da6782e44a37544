#include "source/watch.h"

#include <fcntl.h>
#include <poll.h>

#include <stdexcept>

#include <gtest/gtest.h>

#include "source/test_folder.h"

namespace source {
namespace {

namespace fs = std::filesystem;

Watch open_watch(const std::string& path) {
  auto watch = Watch::open(path);
  if (!watch) throw std::runtime_error(watch.error().text);  // ends the test
  EXPECT_EQ(watch->trouble(), "");
  return *std::move(watch);
}

TEST(Watch, SeesFilesWrittenRenamedLinkedAndRemoved) {
  const TestFolder folder;
  auto watch = open_watch(folder.path());
  EXPECT_FALSE(watch.drain());
  folder.write("a.yaml", "x");
  EXPECT_TRUE(watch.drain());
  EXPECT_FALSE(watch.drain());
  folder.rename_into_place("a.yaml", "y");
  EXPECT_TRUE(watch.drain());
  fs::create_hard_link(folder.path("a.yaml"), folder.path("b.yaml"));
  EXPECT_TRUE(watch.drain());
  fs::rename(folder.path("b.yaml"), folder.beside("b.yaml"));
  EXPECT_TRUE(watch.drain());
  folder.remove("a.yaml");
  EXPECT_TRUE(watch.drain());
}

TEST(Watch, ItsDescriptorIsReadableWhenThereIsSomething) {
  const TestFolder folder;
  auto watch = open_watch(folder.path());
  pollfd poll{watch.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&poll, 1, 0), 0);
  folder.write("a.yaml", "x");
  EXPECT_EQ(::poll(&poll, 1, 0), 1);
}

TEST(Watch, OtherFilesDoNotCount) {
  const TestFolder folder;
  auto watch = open_watch(folder.path());
  folder.write(".a.yaml.swp", "x");
  folder.write("a.yaml~", "x");
  folder.write("README", "x");
  TestFolder::put(folder.beside("other.yaml"), "x");
  EXPECT_FALSE(watch.drain());
}

TEST(Watch, AFileStillBeingWrittenDoesNotCountUntilItIsClosed) {
  const TestFolder folder;
  folder.write("a.yaml", "x");
  auto watch = open_watch(folder.path());
  base::Fd fd(::open(folder.path("a.yaml").c_str(), O_WRONLY | O_TRUNC));
  ASSERT_EQ(::write(fd.get(), "half", 4), 4);
  EXPECT_FALSE(watch.drain());
  EXPECT_EQ(watch.being_written(), std::set{stamp_of(folder.path("a.yaml")).id});
  fd.reset();
  EXPECT_TRUE(watch.drain());
  EXPECT_TRUE(watch.being_written().empty());
}

TEST(Watch, AWriterWhoseFileIsReplacedIsForgotten) {
  const TestFolder folder;
  auto watch = open_watch(folder.path());
  const base::Fd fd(::open(folder.path("a.yaml").c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(::write(fd.get(), "half", 4), 4);
  EXPECT_FALSE(watch.drain());
  EXPECT_EQ(watch.being_written().size(), 1u);
  folder.rename_into_place("a.yaml", "whole");
  EXPECT_TRUE(watch.drain());
  EXPECT_TRUE(watch.being_written().empty());
}

TEST(Watch, SeesTheSwapOfAMountedConfigMap) {
  const TestFolder folder;
  folder.swap_data("..1", "a.yaml", "x");
  auto watch = open_watch(folder.path());
  folder.swap_data("..2", "a.yaml", "y");
  EXPECT_TRUE(watch.drain());
  EXPECT_FALSE(watch.drain());
  folder.swap_data("..3", "a.yaml", "z");
  EXPECT_TRUE(watch.drain());
}

TEST(Watch, FollowsLinksOutOfTheFolder) {
  const TestFolder folder;
  fs::create_directory(folder.beside("v1"));
  fs::create_directory(folder.beside("v2"));
  TestFolder::put(folder.beside("v1/real.yaml"), "x");
  TestFolder::put(folder.beside("v2/real.yaml"), "x");
  fs::create_symlink("v1", folder.beside("current"));
  fs::create_symlink("../current/real.yaml", folder.path("a.yaml"));
  auto watch = open_watch(folder.path());

  TestFolder::put(folder.beside("v1/real.yaml"), "y");
  EXPECT_TRUE(watch.drain());
  TestFolder::put(folder.beside("v1/other.yaml"), "y");
  TestFolder::put(folder.beside("v2/real.yaml"), "y");
  EXPECT_FALSE(watch.drain());

  fs::create_symlink("v2", folder.beside("next"));
  fs::rename(folder.beside("next"), folder.beside("current"));
  EXPECT_TRUE(watch.drain());
  TestFolder::put(folder.beside("v2/real.yaml"), "z");
  EXPECT_TRUE(watch.drain());
  TestFolder::put(folder.beside("v1/real.yaml"), "z");
  EXPECT_FALSE(watch.drain());
}

TEST(Watch, SeesTheFolderDeletedAndMadeAgain) {
  const TestFolder folder;
  auto watch = open_watch(folder.path());
  fs::remove_all(folder.path());
  EXPECT_TRUE(watch.drain());
  fs::create_directory(folder.path());
  EXPECT_TRUE(watch.drain());
  folder.write("a.yaml", "x");
  EXPECT_TRUE(watch.drain());
}

TEST(Watch, SeesTheFolderSwappedByItsLink) {
  const TestFolder folder;
  fs::create_directory(folder.beside("one"));
  fs::create_directory(folder.beside("two"));
  fs::create_symlink("one", folder.beside("link"));
  auto watch = open_watch(folder.beside("link"));
  fs::create_symlink("two", folder.beside("link2"));
  fs::rename(folder.beside("link2"), folder.beside("link"));
  EXPECT_TRUE(watch.drain());
  TestFolder::put(folder.beside("two/a.yaml"), "x");
  EXPECT_TRUE(watch.drain());
  TestFolder::put(folder.beside("one/a.yaml"), "x");
  EXPECT_FALSE(watch.drain());
}

TEST(Watch, WaitsForAPathThatDoesNotExistYet) {
  const TestFolder folder;
  auto watch = open_watch(folder.path("deep/er"));
  fs::create_directory(folder.path("deep"));
  EXPECT_TRUE(watch.drain());
  fs::create_directory(folder.path("deep/er"));
  EXPECT_TRUE(watch.drain());
  folder.write("deep/er/a.yaml", "x");
  EXPECT_TRUE(watch.drain());
}

TEST(Watch, WatchesASingleFileByItsFolder) {
  const TestFolder folder;
  folder.write("one.conf", "x");
  auto watch = open_watch(folder.path("one.conf"));
  folder.write("two.yaml", "x");
  EXPECT_FALSE(watch.drain());
  folder.write("one.conf", "y");
  EXPECT_TRUE(watch.drain());
  folder.rename_into_place("one.conf", "z");
  EXPECT_TRUE(watch.drain());
  folder.remove("one.conf");
  EXPECT_TRUE(watch.drain());
  folder.write("one.conf", "again");
  EXPECT_TRUE(watch.drain());
}

TEST(Watch, ALoopOfLinksDoesNotCatchIt) {
  const TestFolder folder;
  fs::create_symlink("b.yaml", folder.path("a.yaml"));
  fs::create_symlink("a.yaml", folder.path("b.yaml"));
  auto watch = open_watch(folder.path());
  folder.remove("a.yaml");
  EXPECT_TRUE(watch.drain());
}

}  // namespace
}  // namespace source
