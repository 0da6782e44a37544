#include "daemon/rule_watch.h"

#include <unistd.h>

#include <array>

#include <gtest/gtest.h>

#include "base/fd.h"

namespace proxyd {
namespace {

using backend::Disturbance;
using std::chrono::seconds;

// Each byte of a pipe is news of that weight.
class PipeWatch : public backend::Watch {
 public:
  PipeWatch(base::Fd pipe, int& drained) : pipe_(std::move(pipe)), drained_(drained) {}

  int fd() const override { return pipe_.get(); }
  Disturbance drain() override {
    std::array<char, 16> bytes{};
    const ssize_t got = ::read(pipe_.get(), bytes.data(), bytes.size());
    auto worst = Disturbance::None;
    for (ssize_t i = 0; i < got; ++i)
      worst = std::max(worst, Disturbance{static_cast<uint8_t>(bytes[static_cast<size_t>(i)])});
    ++drained_;
    return worst;
  }

 private:
  base::Fd pipe_;
  int& drained_;
};

class RuleWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    in_ = base::Fd(ends[1]);
    watch_.emplace(loop_, std::make_unique<PipeWatch>(base::Fd(ends[0]), drained_), mailbox_);
    ASSERT_TRUE(watch_->start());
  }
  // Lets the news arrive, and takes the letter.
  std::optional<Update> letter_after(Disturbance news) {
    const auto byte = static_cast<char>(news);
    EXPECT_EQ(::write(in_.get(), &byte, 1), 1);
    const int before = drained_;
    const auto heard =
        loop_.run_until([&] { return drained_ > before; }, Loop::Clock::now() + seconds(60));
    EXPECT_TRUE(heard && *heard);
    return mailbox_->take_until(Loop::Clock::now());
  }

  Loop loop_;
  base::Fd in_;
  int drained_ = 0;
  Mailbox mailbox_ = std::make_shared<event::Mailbox<Update>>();
  std::optional<RuleWatch> watch_;
};

TEST_F(RuleWatchTest, WhatDisturbsIsToldEachTime) {
  for (const auto news : {Disturbance::Maybe, Disturbance::Sure, Disturbance::Sure}) {
    const auto letter = letter_after(news);
    ASSERT_TRUE(letter);
    EXPECT_EQ(letter->disturbance, news);
    EXPECT_EQ(letter->snapshot, nullptr);
  }
}

TEST_F(RuleWatchTest, OtherNewsWakesNobody) { EXPECT_FALSE(letter_after(Disturbance::None)); }

}  // namespace
}  // namespace proxyd
