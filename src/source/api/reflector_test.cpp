#include "source/api/reflector.h"

#include <deque>
#include <map>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace source::api {
namespace {

using base::ErrorCode;
using base::Result;
using event::Async;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

constexpr auto kJson = "application/json";

// What a server answers to one request: bytes in pieces, then an end or an error.
struct Answer {
  int status = 200;
  std::string content_type = kJson;
  std::vector<std::string> pieces{};
  std::optional<base::Error> error{};       // of the connection, instead of any answer
  std::optional<base::Error> read_error{};  // after the pieces
  bool stays_open = false;                  // after the pieces
  std::chrono::seconds lasts{60};
};

std::string service(const std::string& name, int version) {
  return R"({"apiVersion":"v1","kind":"Service","metadata":{"name":")" + name +
         R"(","namespace":"default","resourceVersion":")" + std::to_string(version) +
         R"("},"spec":{"clusterIP":"10.96.0.1","ports":[{"port":80}]}})";
}
std::string event(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}
std::string added(const std::string& name, int version) {
  return event("ADDED", service(name, version));
}
std::string bookmark(int version, bool end_of_state = false) {
  const std::string note =
      end_of_state ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "";
  return event("BOOKMARK",
               R"({"apiVersion":"v1","kind":"Service","metadata":{"resourceVersion":")" +
                   std::to_string(version) + "\"" + note + "}}");
}
std::string status(int code, const std::string& reason) {
  return R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"no: )" + reason +
         R"(","reason":")" + reason + R"(","code":)" + std::to_string(code) + "}";
}
Answer refusal(int code, const std::string& reason) {
  return {.status = code, .pieces = {status(code, reason)}};
}
Answer refused() {
  return {.error = base::Error{ErrorCode::Refused, "connect: connection refused"}};
}
Answer open_with(std::vector<std::string> pieces) {
  return {.pieces = std::move(pieces), .stays_open = true};
}
std::string list(const std::vector<std::string>& items, int version,
                 const std::string& token = "") {
  std::string out = R"({"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":")" +
                    std::to_string(version) + R"(","continue":")" + token + R"("},"items":[)";
  for (const auto& item : items)
    out += (out.back() == '[' ? "" : ",") + item;
  return out + "]}";
}

struct World {
  std::chrono::steady_clock::time_point now{};
  std::deque<Answer> answers;
  std::vector<std::string> asked;
  bool exhausted = false;

  Answer next(const kube::Request& request, bool watch) {
    // Without what is random or always there.
    std::string query = request.query.substr(0, request.query.find("&timeout="));
    for (const std::string_view noise :
         {"allowWatchBookmarks=true&", "fieldSelector=spec.clusterIP%21%3DNone&",
          "labelSelector=%21service.kubernetes.io%2Fservice-proxy-name",
          "resourceVersionMatch=NotOlderThan&"}) {
      if (const auto at = query.find(noise); at != std::string::npos) query.erase(at, noise.size());
    }
    while (query.starts_with('&'))
      query.erase(0, 1);
    if (const auto gap = query.find("&&"); gap != std::string::npos) query.erase(gap, 1);
    asked.push_back((watch ? "watch " : "list ") + query);
    if (answers.empty()) return {.stays_open = true};
    Answer answer = std::move(answers.front());
    answers.pop_front();
    return answer;
  }
};

Async<> forever() { co_await event::sleep_for(24h); }

class FakeStream final : public kube::Stream {
 public:
  FakeStream(World& world, Answer answer) : world_(world), answer_(std::move(answer)) {}
  int status() const override { return answer_.status; }
  const std::string& content_type() const override { return answer_.content_type; }
  Async<Result<std::string_view>> read() override {
    if (next_ < answer_.pieces.size()) co_return std::string_view(answer_.pieces[next_++]);
    if (answer_.stays_open) co_await forever();
    world_.now += answer_.lasts;
    if (answer_.read_error) co_return std::unexpected(*answer_.read_error);
    co_return std::string_view();
  }

 private:
  World& world_;
  Answer answer_;
  size_t next_ = 0;
};

class FakeClient final : public kube::Client {
 public:
  explicit FakeClient(World& world) : world_(world) {}
  Async<Result<kube::Response>> request(const kube::Request& request) override {
    Answer answer = world_.next(request, false);
    if (answer.error) co_return std::unexpected(*answer.error);
    if (answer.stays_open) co_await forever();
    std::string body;
    for (const auto& piece : answer.pieces)
      body += piece;
    co_return kube::Response{answer.status, answer.content_type, body};
  }
  Async<Result<std::unique_ptr<kube::Stream>>> stream(const kube::Request& request,
                                                      std::chrono::seconds) override {
    Answer answer = world_.next(request, true);
    if (answer.error) co_return std::unexpected(*answer.error);
    co_return std::make_unique<FakeStream>(world_, std::move(answer));
  }

 private:
  World& world_;
};

// Runs a reflector against a script until nothing is left in it.
class ReflectorTest : public ::testing::Test {
 protected:
  void run(std::deque<Answer> answers, bool stream_the_state = true) {
    world.answers = std::move(answers);
    Surroundings around{
        .clock = [this] { return world.now; },
        .sleep = [this](std::chrono::nanoseconds time) -> Async<> {
          slept.push_back(time);
          world.now += time;
          co_return;
        },
        .chance = [] { return 0.5; },
        .wall = [this] { return wall; },
    };
    Listener listener{
        .changes = [this](std::vector<model::Change> changes) { fold(changes); },
        .synced = [this] { ++synced; },
        .tell =
            [this](const kube::Notice& notice) {
              if (notice.verbosity == 0) told += notice.message + ": " + notice.err + "\n";
            },
        .heard = [this](std::chrono::nanoseconds) { ++heard; },
        .lagged = [this](std::chrono::nanoseconds lag) { lags.push_back(lag); },
    };
    Reflector reflector({resource, ""}, stream_the_state, client, std::move(listener),
                        std::move(around));
    boost::asio::io_context io;
    boost::asio::co_spawn(io, reflector.run(), boost::asio::detached);
    io.poll();
  }

  void fold(const std::vector<model::Change>& changes) {
    for (const auto& change : changes) {
      if (const auto* there = std::get_if<std::shared_ptr<const model::Service>>(&change))
        objects[(*there)->key.name] = 1;
      if (const auto* gone = std::get_if<model::ServiceDeleted>(&change))
        objects.erase(gone->key.name);
    }
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, _] : objects)
      out.push_back(name);
    return out;
  }

  World world;
  FakeClient client{world};
  std::map<std::string, int> objects;
  int synced = 0;
  std::vector<std::chrono::nanoseconds> slept;
  std::string told;
  Resource resource = Resource::Services;
  std::chrono::system_clock::time_point wall{100s};
  int heard = 0;
  std::vector<std::chrono::nanoseconds> lags;
};

TEST_F(ReflectorTest, TheStateIsInForceOnceItIsCompleteAndChangesFollowInTheSameStream) {
  run({open_with({added("a", 1) + added("b", 2) + bookmark(7, true) + added("c", 8),
                  event("DELETED", service("a", 9))})});
  EXPECT_THAT(names(), ElementsAre("b", "c"));
  EXPECT_EQ(synced, 1);
  EXPECT_THAT(world.asked, ElementsAre("watch sendInitialEvents=true"));
}

TEST_F(ReflectorTest, AnIncompleteStateIsNotInForce) {
  run({open_with({added("a", 1), bookmark(2)})});
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_EQ(synced, 0);
}

TEST_F(ReflectorTest, AnObjectThatGoesWhileTheStateArrivesIsNotInIt) {
  run({open_with({added("a", 1) + added("b", 2) + event("DELETED", service("a", 3)),
                  event("MODIFIED", service("b", 4)) + bookmark(4, true)})});
  EXPECT_THAT(names(), ElementsAre("b"));
}

TEST_F(ReflectorTest, AWatchThatEndsIsOpenedAgainWhereItStopped) {
  run({Answer{.pieces = {bookmark(7, true), added("a", 9), bookmark(12)}}});
  EXPECT_THAT(world.asked, ElementsAre("watch sendInitialEvents=true", "watch resourceVersion=12"));
  EXPECT_THAT(slept, IsEmpty());
}

TEST_F(ReflectorTest, AWatchThatBreaksOffIsOpenedAgainWhereItStopped) {
  run({Answer{.pieces = {bookmark(7, true), added("a", 9).substr(0, 30)},
              .read_error = base::Error{ErrorCode::Lost, "read: connection reset by peer"}}});
  EXPECT_THAT(world.asked, ElementsAre("watch sendInitialEvents=true", "watch resourceVersion=7"));
  EXPECT_THAT(told, HasSubstr("Lost the connection of a watch"));
}

TEST_F(ReflectorTest, AServerThatCannotStreamItsStateGetsAListAndAWatch) {
  run({refusal(422, "Invalid"), Answer{.pieces = {list({service("a", 1)}, 5)}},
       open_with({added("b", 6)})});
  EXPECT_THAT(world.asked,
              ElementsAre("watch sendInitialEvents=true", "list limit=500&resourceVersion=0",
                          "watch resourceVersion=5"));
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_F(ReflectorTest, WithoutTheGateItIsAList) {
  run({Answer{.pieces = {list({service("a", 1)}, 5)}}}, false);
  EXPECT_THAT(world.asked,
              ElementsAre("list limit=500&resourceVersion=0", "watch resourceVersion=5"));
}

TEST_F(ReflectorTest, PagesAreFollowed) {
  run({Answer{.pieces = {list({service("a", 1)}, 5, "tok/en")}},
       Answer{.pieces = {list({service("b", 1)}, 5)}}},
      false);
  EXPECT_THAT(world.asked,
              ElementsAre("list limit=500&resourceVersion=0", "list continue=tok%2Fen&limit=500",
                          "watch resourceVersion=5"));
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_F(ReflectorTest, PagesThatExpireAreAskedForAsOneList) {
  run({Answer{.pieces = {list({service("a", 1)}, 5, "t")}}, refusal(410, "Expired"),
       Answer{.pieces = {list({service("a", 1), service("b", 1)}, 6)}}},
      false);
  EXPECT_THAT(world.asked,
              ElementsAre("list limit=500&resourceVersion=0", "list continue=t&limit=500",
                          "list resourceVersion=0", "watch resourceVersion=6"));
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_F(ReflectorTest, AfterGoneTheStateIsAskedForAgainAndWhatVanishedMeanwhileIsDeleted) {
  run({Answer{.pieces = {added("a", 1) + added("b", 2) + bookmark(7, true),
                         event("ERROR", status(410, "Expired"))}},
       refusal(410, "Expired"), open_with({added("b", 2) + bookmark(30, true)})});
  EXPECT_THAT(world.asked, ElementsAre("watch sendInitialEvents=true",
                                       "watch resourceVersion=7&sendInitialEvents=true",
                                       "watch sendInitialEvents=true"));
  EXPECT_THAT(names(), ElementsAre("b"));
  EXPECT_EQ(synced, 1);
}

TEST_F(ReflectorTest, NobodyListeningIsTriedAgainWithTheBackoffOfTheSpec) {
  run({refused(), refused(), refused(), refused(), refused(), refused(), refused()});
  // 0.8 s doubled up to 30 s, and half of it again by this chance.
  EXPECT_THAT(slept, ElementsAre(1200ms, 2400ms, 4800ms, 9600ms, 19200ms, 38400ms, 45s));
}

TEST_F(ReflectorTest, AnOutageIsToldOnceAndSoIsItsEnd) {
  run({open_with({bookmark(7, true)})});
  told.clear();
  run({Answer{.pieces = {bookmark(7, true)}}, refused(), refused(), refused(),
       open_with({added("a", 8)})});
  EXPECT_EQ(told,
            "Cannot watch the API server, the last state stays in force: connect: connection "
            "refused\nThe API server can be watched again: \n");
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(ReflectorTest, ARefusedWatchIsOpenedAgainWithoutAskingForTheStateAgain) {
  run({Answer{.pieces = {bookmark(7, true)}}, refused(), refusal(429, "TooManyRequests"),
       open_with({added("a", 8)})});
  EXPECT_THAT(world.asked, ElementsAre("watch sendInitialEvents=true", "watch resourceVersion=7",
                                       "watch resourceVersion=7", "watch resourceVersion=7"));
}

TEST_F(ReflectorTest, NoPermissionIsAnErrorThatNamesTheReason) {
  run({refusal(403, "Forbidden"), refusal(403, "Forbidden")});
  EXPECT_THAT(told, HasSubstr("Failed to watch: failed to list *v1.Service: no: Forbidden"));
  EXPECT_THAT(slept, ElementsAre(1200ms));
}

TEST_F(ReflectorTest, GarbageEndsTheCycleWithAPause) {
  run({Answer{.pieces = {bookmark(7, true), "<html>busy</html>"}}});
  EXPECT_THAT(told, HasSubstr("Warning: watch ended with error"));
  EXPECT_THAT(slept, ElementsAre(1200ms));
}

TEST_F(ReflectorTest, AnotherContentTypeIsAnError) {
  run({Answer{.content_type = "text/html", .pieces = {"<html>"}},
       Answer{.content_type = "text/html", .pieces = {"<html>"}}});
  EXPECT_THAT(told, HasSubstr("text/html"));
  EXPECT_EQ(synced, 0);
}

TEST_F(ReflectorTest, ABookmarkThatGoesBackIsAnErrorAndAPause) {
  run({Answer{.pieces = {bookmark(70, true), bookmark(9)}}});
  EXPECT_THAT(told, HasSubstr("went back from version 70 to 9"));
  EXPECT_THAT(slept, ElementsAre(1200ms));
}

TEST_F(ReflectorTest, AServerThatHangsUpAtOnceIsNotAskedWithoutPause) {
  const Answer brief{.pieces = {}, .lasts = 0s};
  const Answer talkative{.pieces = {added("a", 8)}, .lasts = 0s};
  run({Answer{.pieces = {bookmark(7, true)}}, talkative, brief});
  EXPECT_THAT(slept, ElementsAre(1s, 1200ms));
  EXPECT_THAT(told, HasSubstr("very short watch"));
}

TEST_F(ReflectorTest, AStateThatBreaksOffAgainAndAgainIsToldAndPaced) {
  const Answer cut{.pieces = {added("a", 1)}};
  run({cut, cut, cut, open_with({added("a", 1) + bookmark(3, true)})});
  EXPECT_THAT(slept, ElementsAre(1200ms, 2400ms, 4800ms));
  EXPECT_THAT(told, HasSubstr("the stream ended before the state was complete"));
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(ReflectorTest, AnEmptyPageThatIsNotTheLastIsAnError) {
  run({Answer{.pieces = {list({}, 5, "t")}}}, false);
  EXPECT_THAT(told, HasSubstr("an empty page"));
  EXPECT_EQ(synced, 0);
}

TEST_F(ReflectorTest, AWatchThatMayNotBeOpenedIsAnError) {
  run({Answer{.pieces = {list({service("a", 1)}, 5)}}, refusal(403, "Forbidden")}, false);
  EXPECT_THAT(told, HasSubstr("Failed to watch: failed to watch *v1.Service: no: Forbidden"));
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(ReflectorTest, ABrokenObjectIsToldAndTheOthersAreUsed) {
  run({open_with({event("ADDED", R"({"kind":"Service","apiVersion":"v1","metadata":{"name":"bad",)"
                                 R"("namespace":"default","resourceVersion":"1"},)"
                                 R"("spec":{"clusterIP":"nonsense"}})") +
                  added("good", 2) + bookmark(3, true)})});
  EXPECT_THAT(names(), ElementsAre("good"));
  EXPECT_THAT(told, HasSubstr("default/bad"));
}

TEST(Queries, AreThoseOfKubeProxy) {
  EXPECT_EQ((Query{Resource::Services, ""}.state_and_watch("", 409s)),
            "allowWatchBookmarks=true&fieldSelector=spec.clusterIP%21%3DNone&"
            "labelSelector=%21service.kubernetes.io%2Fservice-proxy-name&"
            "resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeout=6m49s&"
            "timeoutSeconds=409&watch=true");
  EXPECT_EQ((Query{Resource::Nodes, "n1"}.list("0", 500)),
            "fieldSelector=metadata.name%3Dn1&limit=500&resourceVersion=0");
  EXPECT_EQ(
      (Query{Resource::ServiceCidrs, ""}.watch("214", 433s)),
      "allowWatchBookmarks=true&resourceVersion=214&timeout=7m13s&timeoutSeconds=433&watch=true");
}

TEST(Backoff, StartsAnewAfterTwoQuietMinutes) {
  Backoff backoff;
  Backoff::Time now{};
  EXPECT_EQ(backoff.next(now, 0), 800ms);
  EXPECT_EQ(backoff.next(now += 1s, 0), 1600ms);
  EXPECT_EQ(backoff.next(now += 121s, 0), 800ms);
}

TEST_F(ReflectorTest, WhateverArrivesIsHeardBookmarksToo) {
  run({open_with({added("a", 1), bookmark(7, true), bookmark(8)})});
  EXPECT_EQ(heard, 3);
}

TEST_F(ReflectorTest, AListIsHeard) {
  run({Answer{.pieces = {list({service("a", 1)}, 5)}}}, false);
  EXPECT_EQ(heard, 1);
}

// A slice whose change happened so many seconds after the epoch.
std::string slice(const std::string& type, const std::string& name, int second) {
  return event(type,
               R"({"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","addressType":"IPv4",)"
               R"("metadata":{"name":")" +
                   name +
                   R"(","namespace":"default","resourceVersion":"9","labels":)"
                   R"({"kubernetes.io/service-name":"web"},"annotations":)"
                   R"({"endpoints.kubernetes.io/last-change-trigger-time":"1970-01-01T00:01:)" +
                   std::to_string(second - 60) + R"(Z"}}})");
}
std::string end_of_slices() {
  return event("BOOKMARK", R"({"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice",)"
                           R"("metadata":{"resourceVersion":"7","annotations":)"
                           R"({"k8s.io/initial-events-end":"true"}}})");
}

TEST_F(ReflectorTest, TheLagIsThatOfChangesAfterTheFirstState) {
  resource = Resource::EndpointSlices;
  run({open_with({slice("ADDED", "a", 70) + end_of_slices(), slice("ADDED", "b", 90),
                  slice("MODIFIED", "a", 98)})});
  EXPECT_THAT(lags, ElementsAre(10s, 2s));
}

TEST_F(ReflectorTest, ASliceThatIsSentAgainWithItsOldTimeHasNoLag) {
  resource = Resource::EndpointSlices;
  run({open_with({end_of_slices(), slice("ADDED", "a", 90), slice("MODIFIED", "a", 90),
                  slice("MODIFIED", "b", 80)})});
  EXPECT_THAT(lags, ElementsAre(10s));
}

TEST_F(ReflectorTest, AChangeFromTheFutureHasNoLagAndHidesNoOther) {
  resource = Resource::EndpointSlices;
  wall = std::chrono::system_clock::time_point(80s);
  run({open_with({end_of_slices(), slice("ADDED", "a", 99)})});
  EXPECT_THAT(lags, ElementsAre(0s));
}

}  // namespace
}  // namespace source::api
