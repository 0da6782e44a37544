#include "kube/events.h"

#include <deque>
#include <list>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kube {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using std::chrono::system_clock;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Remembers what it was asked, and answers as it was told to; with 201 once it has nothing left.
class FakeClient : public Client {
 public:
  event::Async<base::Result<Response>> request(const Request& request) override {
    requests.push_back(request);
    if (answers.empty()) co_return Response{.status = 201};
    auto answer = std::move(answers.front());
    answers.pop_front();
    co_return answer;
  }
  event::Async<base::Result<std::unique_ptr<Stream>>> stream(const Request&, seconds) override {
    co_return base::fail(base::ErrorCode::Unsupported, "no streams here");
  }

  void answer(int status, const std::string& body = "") {
    answers.push_back(Response{.status = status, .body = body});
  }
  void fail(int times = 1) {
    for (int i = 0; i < times; ++i)
      answers.push_back(base::fail(base::ErrorCode::System, "connection refused"));
  }

  std::vector<Request> requests;
  std::deque<base::Result<Response>> answers;
};

// Time that passes only when it is told to.
class VirtualClock {
 public:
  explicit VirtualClock(asio::io_context& io) : io_(io) {}

  system_clock::time_point now() const { return now_; }

  event::Async<> sleep(nanoseconds time) {
    naps.push_back(time);
    const auto sleeper = sleepers_.insert(
        sleepers_.end(), Sleeper{now_ + time, asio::steady_timer(io_, seconds(3600))});
    boost::system::error_code ignored;
    co_await sleeper->timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    sleepers_.erase(sleeper);
  }

  void advance(nanoseconds time) {
    now_ += time;
    for (auto& sleeper : sleepers_)
      if (sleeper.until <= now_) sleeper.timer.cancel();
    io_.poll();
  }

  std::vector<nanoseconds> naps;  // asked for

 private:
  struct Sleeper {
    system_clock::time_point until;
    asio::steady_timer timer;
  };
  asio::io_context& io_;
  system_clock::time_point now_{seconds(1'000'000)};
  std::list<Sleeper> sleepers_;
};

class EventsTest : public testing::Test {
 protected:
  EventsTest() { io_.poll(); }

  void record(const std::string& name = "node-1", const std::string& note = "") {
    recorder_->record({.regarding = {.kind = "Node", .name = name},
                       .reason = "Starting",
                       .action = "StartKubeProxy",
                       .note = note});
    io_.poll();
  }

  // "POST", "PATCH 3" (with the count), in order.
  std::vector<std::string> asked() const {
    std::vector<std::string> all;
    for (const auto& request : client_.requests) {
      const size_t count = request.body.find("\"count\":");
      const bool series = request.method == "PATCH" && count != std::string::npos;
      all.push_back(request.method + (series ? " " + request.body.substr(count + 8, 1) : ""));
    }
    return all;
  }

  asio::io_context io_{1};
  FakeClient client_;
  VirtualClock clock_{io_};
  double random_ = 0;
  std::vector<Notice> told_;
  std::unique_ptr<Recorder> recorder_ =
      make_recorder(io_.get_executor(), client_, "application/json", "host-a",
                    [this](const Notice& notice) { told_.push_back(notice); },
                    {.now = [this] { return clock_.now(); },
                     .sleep = [this](nanoseconds time) { return clock_.sleep(time); },
                     .random = [this] { return random_; }});
};

TEST_F(EventsTest, AnEventIsCreated) {
  record();
  ASSERT_THAT(asked(), ElementsAre("POST"));
  EXPECT_THAT(client_.requests[0].body, HasSubstr("\"reportingInstance\":\"kube-proxy-host-a\""));
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(EventsTest, TheSecondOfAKindMakesASeriesAndFurtherOnesAreCounted) {
  record();
  record();
  EXPECT_THAT(asked(), ElementsAre("POST", "PATCH 2"));
  record();
  record();
  EXPECT_THAT(asked(), ElementsAre("POST", "PATCH 2"));
}

TEST_F(EventsTest, NotesDoNotMakeAnotherKindAndObjectsDo) {
  record("node-1", "one");
  record("node-1", "two");
  record("node-2");
  EXPECT_THAT(asked(), ElementsAre("POST", "PATCH 2", "POST"));
}

TEST_F(EventsTest, TheLastCountIsWrittenWhenASeriesHasEnded) {
  for (int i = 0; i < 5; ++i)
    record();
  clock_.advance(minutes(6));  // not older than 6 minutes
  EXPECT_THAT(asked(), ElementsAre("POST", "PATCH 2"));
  clock_.advance(minutes(6));
  EXPECT_THAT(asked(), ElementsAre("POST", "PATCH 2", "PATCH 5"));
  record();
  EXPECT_THAT(asked(), ElementsAre("POST", "PATCH 2", "PATCH 5", "POST"));
}

TEST_F(EventsTest, ASeriesThatCannotBeEndedIsKept) {
  record();
  record();
  clock_.advance(minutes(6));
  client_.fail();
  clock_.advance(minutes(6));
  EXPECT_THAT(asked(), ElementsAre("POST", "PATCH 2", "PATCH 2"));
  clock_.advance(minutes(6));
  clock_.advance(minutes(6));
  EXPECT_THAT(asked(), ElementsAre("POST", "PATCH 2", "PATCH 2", "PATCH 2"));
}

TEST_F(EventsTest, ASeriesThatGoesOnIsWrittenEveryHalfAnHour) {
  record();
  for (int i = 0; i < 5; ++i) {
    record();
    clock_.advance(minutes(6));
  }
  EXPECT_THAT(asked(), ElementsAre("POST", "PATCH 2", "PATCH 6"));
}

TEST_F(EventsTest, AnEventThatWasNotRepeatedIsForgotten) {
  record();
  clock_.advance(minutes(6));
  clock_.advance(minutes(6));
  record();
  EXPECT_THAT(asked(), ElementsAre("POST", "POST"));
}

TEST_F(EventsTest, APatchOfWhatIsGoneCreatesItAnew) {
  record();
  client_.answer(404);
  record();
  ASSERT_THAT(asked(), ElementsAre("POST", "PATCH 2", "POST"));
  EXPECT_THAT(client_.requests[2].body, HasSubstr("\"series\":{\"count\":2"));
}

TEST_F(EventsTest, ACreatedAnewThatExistsIsPatchedAgain) {
  record();
  client_.answer(404);
  client_.answer(409);
  record();
  clock_.advance(seconds(10));
  EXPECT_THAT(asked(), ElementsAre("POST", "PATCH 2", "POST", "PATCH 2"));
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(EventsTest, AnAnswerThatRefusesIsTheLastWord) {
  for (const int status : {400, 403, 404, 422, 429, 500, 503}) {
    client_.requests.clear();
    told_.clear();
    client_.answer(status, R"({"message":"no"})");
    record("node-" + std::to_string(status));
    clock_.advance(minutes(1));
    EXPECT_THAT(asked(), ElementsAre("POST")) << status;
    ASSERT_EQ(told_.size(), 1) << status;
    EXPECT_EQ(told_[0].severity, Notice::Severity::Error);
    EXPECT_EQ(told_[0].message, "Server rejected event (will not retry!)");
    EXPECT_EQ(told_[0].err, "no");
  }
}

TEST_F(EventsTest, ANameThatExistsIsHardlyWorthANotice) {
  client_.answer(409);
  record();
  ASSERT_EQ(told_.size(), 1);
  EXPECT_EQ(told_[0].severity, Notice::Severity::Info);
  EXPECT_EQ(told_[0].verbosity, 5);
}

TEST_F(EventsTest, AServerThatCannotBeReachedIsTriedTwelveTimes) {
  client_.fail(100);
  record();
  for (int i = 0; i < 20; ++i)
    clock_.advance(seconds(10));
  EXPECT_EQ(client_.requests.size(), 12);
  ASSERT_EQ(told_.size(), 13);
  EXPECT_EQ(told_[11].message, "Unable to write event (may retry after sleeping)");
  EXPECT_EQ(told_[11].err, "connection refused");
  EXPECT_EQ(told_[12].message, "Unable to write event (retry limit exceeded!)");
}

TEST_F(EventsTest, PausesAreUpToAQuarterLonger) {
  clock_.naps.clear();
  client_.fail(2);
  record();
  random_ = 0.5;
  clock_.advance(seconds(10));
  EXPECT_THAT(clock_.naps, ElementsAre(seconds(10), milliseconds(11'250)));
}

TEST_F(EventsTest, ALaterEventWaitsForTheOneBefore) {
  client_.fail();
  record("node-1");
  record("node-2");
  EXPECT_THAT(asked(), ElementsAre("POST"));
  clock_.advance(seconds(10));
  EXPECT_THAT(asked(), ElementsAre("POST", "POST", "POST"));
  EXPECT_THAT(client_.requests[1].body, HasSubstr("\"name\":\"node-1\""));
}

TEST_F(EventsTest, TooManyAreDroppedWithOneNotice) {
  client_.fail();
  record("stuck");
  for (int i = 0; i < 1100; ++i)
    record("node-" + std::to_string(i));
  EXPECT_EQ(told_.size(), 2);
  EXPECT_EQ(told_[1].message, "Too many events wait to be written, dropping new ones");
  clock_.advance(seconds(10));
  EXPECT_EQ(client_.requests.size(), 1 + 1 + 1000);
  record("node-1099");  // which was dropped, so it is the first of its kind
  EXPECT_EQ(client_.requests.back().method, "POST");
}

TEST_F(EventsTest, FlushEndsWhenEverythingIsWritten) {
  client_.fail();
  record();
  bool flushed = false;
  asio::co_spawn(io_, recorder_->flush(std::chrono::hours(1)),
                 [&](const std::exception_ptr&) { flushed = true; });
  io_.poll();
  EXPECT_FALSE(flushed);
  clock_.advance(seconds(10));
  EXPECT_TRUE(flushed);
}

TEST_F(EventsTest, FlushWaitsNoLongerThanItIsTold) {
  client_.fail();
  record();
  bool flushed = false;
  asio::co_spawn(io_, recorder_->flush(seconds(2)),
                 [&](const std::exception_ptr&) { flushed = true; });
  io_.poll();
  clock_.advance(milliseconds(1999));
  EXPECT_FALSE(flushed);
  clock_.advance(milliseconds(1));
  EXPECT_TRUE(flushed);
  EXPECT_THAT(asked(), ElementsAre("POST"));  // the next attempt would have been after 10 s
}

TEST_F(EventsTest, ADestroyedRecorderSaysAndAsksNothingMore) {
  client_.fail();
  record("node-1");
  record("node-2");
  recorder_.reset();
  clock_.advance(minutes(10));
  EXPECT_THAT(asked(), ElementsAre("POST"));
  EXPECT_EQ(told_.size(), 1);
}

}  // namespace
}  // namespace kube
