#include "event/mailbox.h"

#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace event {
namespace {

using std::chrono::steady_clock;

struct Letter {
  std::string text;
  void merge(Letter later) { text += later.text; }
};

TEST(Mailbox, LettersThatWaitMergeInOrder) {
  Mailbox<Letter> box;
  box.put({"a"});
  box.put({"b"});
  EXPECT_EQ(box.take_until(steady_clock::now())->text, "ab");
  EXPECT_FALSE(box.take_until(steady_clock::now()));
}

TEST(Mailbox, ALetterWakesTheReader) {
  Mailbox<Letter> box;
  const std::jthread writer([&] { box.put({"x"}); });
  EXPECT_EQ(box.take_until(steady_clock::now() + std::chrono::hours(1))->text, "x");
}

TEST(Mailbox, ClosingWakesTheReader) {
  Mailbox<Letter> box;
  const std::jthread writer([&] { box.close(); });
  EXPECT_FALSE(box.take_until(steady_clock::now() + std::chrono::hours(1)));
  EXPECT_TRUE(box.closed());
}

}  // namespace
}  // namespace event
