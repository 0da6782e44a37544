#include "source/api/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "source/api/decode_shared.h"
#include "source/api/test_encode.h"
#include "source/api/test_same.h"

namespace source::api {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

codec::Value value(const std::string& json) { return codec::json::parse(json).value(); }

codec::Value service(const std::string& name, const std::string& more = "") {
  return value(R"({"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":")" +
               name + R"(","resourceVersion":"5"},"spec":{"clusterIP":"10.0.0.1")" + more + "}}");
}

codec::Value bookmark(const std::string& annotations = "") {
  return value(R"({"apiVersion":"v1","kind":"Service","metadata":{"resourceVersion":"77")" +
               annotations + "}}");
}

const std::string kExpired =
    R"({"apiVersion":"v1","kind":"Status","message":"too old","reason":"Expired","code":410})";

std::string encoded(Encoding encoding, std::string_view type, const codec::Value& object) {
  return encoding == Encoding::Protobuf ? encode::event(type, object)
                                        : encode::json_event(type, object);
}

// What a reader makes of a stream, and how it ends.
struct Outcome {
  std::vector<Event> events;
  std::string error;  // of feed(), or else of finish()
};

Outcome read(Encoding encoding, const std::vector<std::string_view>& pieces,
             size_t most = EventReader::kMaxEventBytes) {
  Outcome out;
  EventReader reader(Resource::Services, encoding, most);
  for (const auto piece : pieces) {
    const auto fed =
        reader.feed(piece, [&](Event event) { out.events.push_back(std::move(event)); });
    if (fed) continue;
    out.error = fed.error().text;
    return out;
  }
  if (const auto end = reader.finish(); !end) out.error = end.error().text;
  return out;
}

std::string error_of(Encoding encoding, std::string_view bytes) {
  return read(encoding, {bytes}).error;
}

class InBothEncodings : public testing::TestWithParam<Encoding> {};
INSTANTIATE_TEST_SUITE_P(Wire, InBothEncodings, testing::Values(Encoding::Protobuf, Encoding::Json),
                         [](const auto& one) {
                           return one.param == Encoding::Protobuf ? "Protobuf" : "Json";
                         });

TEST_P(InBothEncodings, EventsComeInOrder) {
  const auto outcome = read(
      GetParam(),
      {encoded(GetParam(), "ADDED", service("a")) + encoded(GetParam(), "MODIFIED", service("b")) +
       encoded(GetParam(), "DELETED", service("c")) + encoded(GetParam(), "BOOKMARK", bookmark()) +
       encoded(GetParam(), "ERROR", value(kExpired))});
  EXPECT_EQ(outcome.error, "");
  ASSERT_EQ(outcome.events.size(), 5u);
  EXPECT_EQ(outcome.events[0].type, EventType::Added);
  EXPECT_EQ(outcome.events[0].item.ns, "default");
  EXPECT_EQ(outcome.events[0].item.name, "a");
  EXPECT_EQ(outcome.events[0].item.resource_version, "5");
  EXPECT_FALSE(std::holds_alternative<std::monostate>(outcome.events[0].item.object));
  EXPECT_EQ(outcome.events[1].type, EventType::Modified);
  EXPECT_EQ(outcome.events[2].type, EventType::Deleted);
  EXPECT_EQ(outcome.events[2].item.name, "c");
  EXPECT_EQ(outcome.events[3].type, EventType::Bookmark);
  EXPECT_EQ(outcome.events[3].item.resource_version, "77");
  EXPECT_EQ(outcome.events[4].type, EventType::Error);
  EXPECT_EQ(outcome.events[4].status.code, 410);
  EXPECT_EQ(outcome.events[4].status.message, "too old");
}

TEST_P(InBothEncodings, ABookmarkSaysWhenTheInitialEventsEnd) {
  const auto ends = [&](const std::string& annotations) {
    const auto outcome = read(GetParam(), {encoded(GetParam(), "BOOKMARK", bookmark(annotations))});
    return outcome.events.at(0).initial_events_end;
  };
  EXPECT_TRUE(ends(R"(,"annotations":{"k8s.io/initial-events-end":"true"})"));
  EXPECT_FALSE(ends(R"(,"annotations":{"k8s.io/initial-events-end":"false"})"));
  EXPECT_FALSE(ends(R"(,"annotations":{"a":"true"})"));
  EXPECT_FALSE(ends(""));
}

TEST_P(InBothEncodings, AnObjectThatIsTakenAwayNeedNotBeWhole) {
  const auto outcome =
      read(GetParam(), {encoded(GetParam(), "DELETED", service("a", R"(,"type":"Odd")"))});
  EXPECT_EQ(outcome.events.at(0).item.name, "a");
  EXPECT_EQ(outcome.events.at(0).item.problem, "");
}

TEST_P(InBothEncodings, HoweverTheBytesAreCutTheEventsAreTheSame) {
  const std::string stream = encoded(GetParam(), "ADDED", service("a", R"(,"type":"{\"}\\")")) +
                             encoded(GetParam(), "BOOKMARK", bookmark()) +
                             encoded(GetParam(), "DELETED", service("c"));
  const auto whole = read(GetParam(), {stream});
  ASSERT_EQ(whole.events.size(), 3u);
  const auto expect_same = [&](const Outcome& cut) {
    EXPECT_EQ(cut.error, "");
    EXPECT_TRUE(std::ranges::equal(whole.events, cut.events,
                                   [](const Event& a, const Event& b) { return same(a, b); }));
  };
  const std::string_view text = stream;
  for (size_t at = 0; at <= text.size(); ++at)
    expect_same(read(GetParam(), {text.substr(0, at), text.substr(at)}));
  std::vector<std::string_view> bytes;
  for (size_t at = 0; at < text.size(); ++at)
    bytes.push_back(text.substr(at, 1));
  expect_same(read(GetParam(), bytes));
}

TEST_P(InBothEncodings, AStreamThatEndsInAnEventIsAnError) {
  const std::string stream = encoded(GetParam(), "ADDED", service("a"));
  const std::string_view text = stream;
  const std::string_view end = GetParam() == Encoding::Json ? "}\n" : "";
  for (size_t size = 1; size + 1 < text.size() - end.size(); ++size) {
    EXPECT_EQ(error_of(GetParam(), text.substr(0, size)),
              "the stream ended in the middle of an event");
  }
  EXPECT_EQ(error_of(GetParam(), ""), "");
}

TEST_P(InBothEncodings, AnEventMayBeAsLargeAsTheLimit) {
  const std::string stream = encoded(GetParam(), "ADDED", service("a"));
  const size_t size = GetParam() == Encoding::Json ? stream.size() - 1 : stream.size() - 4;
  EXPECT_EQ(read(GetParam(), {stream}, size).error, "");
  const auto refused = "an event of more than " + std::to_string(size - 1) + " bytes";
  EXPECT_EQ(read(GetParam(), {stream}, size - 1).error, refused);
  const std::string_view text = stream;
  EXPECT_EQ(read(GetParam(), {text.substr(0, 5), text.substr(5)}, size - 1).error, refused);
}

TEST_P(InBothEncodings, WhatIsNotExpectedIsNamed) {
  const auto error = [&](std::string_view type, const codec::Value& object) {
    return error_of(GetParam(), encoded(GetParam(), type, object));
  };
  const auto node = value(R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}})");
  EXPECT_EQ(error("ADDED", node), "expected Service, got Node");
  EXPECT_EQ(error("BOOKMARK", node), "expected Service, got Node");
  EXPECT_EQ(error("ERROR", node), "expected Status, got Node");
  EXPECT_EQ(error("ADDED", value(kExpired)), "expected Service, got Status");
  EXPECT_EQ(error("EXPLODED", service("a")), R"(unknown type of event: "EXPLODED")");
  EXPECT_EQ(
      error("ADDED", value(R"({"apiVersion":"v2","kind":"Service","metadata":{"name":"a"}})")),
      "expected v1 Service, got v2 Service");
}

TEST_P(InBothEncodings, AnObjectWithoutANameEndsTheStream) {
  const auto nameless = value(R"({"apiVersion":"v1","kind":"Service","metadata":{}})");
  for (const auto* type : {"ADDED", "MODIFIED", "DELETED"}) {
    EXPECT_EQ(error_of(GetParam(), encoded(GetParam(), type, nameless)), "Service without a name");
  }
}

TEST_P(InBothEncodings, AVersionThatFitsNoUrlEndsTheStream) {
  const auto error = [&](const std::string& version) {
    const auto object = value(R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"a",)"
                              R"("resourceVersion":")" +
                              version + "\"}}");
    EXPECT_EQ(error_of(GetParam(), encoded(GetParam(), "ADDED", object)),
              error_of(GetParam(), encoded(GetParam(), "BOOKMARK", object)));
    return error_of(GetParam(), encoded(GetParam(), "DELETED", object));
  };
  EXPECT_EQ(error(std::string(64, '9')), "");
  EXPECT_EQ(error(""), "");
  EXPECT_THAT(error(std::string(65, '9')), StartsWith("unusable resourceVersion: \"9999"));
  EXPECT_EQ(error("1 2"), R"(unusable resourceVersion: "1 2")");
  EXPECT_EQ(error("1\\n"), R"(unusable resourceVersion: "1 ")");
}

TEST_P(InBothEncodings, AListIsDecodedWhole) {
  const std::vector<codec::Value> items{service("a"), service("b", R"(,"type":"Odd")")};
  const auto body = GetParam() == Encoding::Protobuf ? encode::list(items, "99", "next")
                                                     : encode::json_list(items, "99", "next");
  const auto page = decode_list(Resource::Services, GetParam(), body);
  ASSERT_TRUE(page) << page.error().text;
  EXPECT_EQ(page->resource_version, "99");
  EXPECT_EQ(page->continue_token, "next");
  ASSERT_EQ(page->items.size(), 2u);
  EXPECT_EQ(page->items[0].name, "a");
  EXPECT_EQ(page->items[0].problem, "");
  EXPECT_FALSE(std::holds_alternative<std::monostate>(page->items[0].object));
  EXPECT_THAT(page->items[1].problem, StartsWith("Service default/b: spec.type: must be one of "));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(page->items[1].object));
}

TEST_P(InBothEncodings, AListOfSomethingElseIsNamed) {
  const std::vector<codec::Value> items{service("a")};
  const auto body =
      GetParam() == Encoding::Protobuf ? encode::list(items, "1") : encode::json_list(items, "1");
  const auto page = decode_list(Resource::Nodes, GetParam(), body);
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().text, "expected NodeList, got ServiceList");
}

TEST_P(InBothEncodings, AListWithANamelessObjectIsAnError) {
  const std::vector<codec::Value> items{service("a"), service("")};
  const auto body =
      GetParam() == Encoding::Protobuf ? encode::list(items, "1") : encode::json_list(items, "1");
  EXPECT_EQ(decode_list(Resource::Services, GetParam(), body).error().text,
            "Service without a name");
}

TEST_P(InBothEncodings, AListThatIsCutIsAnError) {
  const std::vector<codec::Value> items{service("a"), service("b")};
  const auto body =
      GetParam() == Encoding::Protobuf ? encode::list(items, "1") : encode::json_list(items, "1");
  // Behind the object, protobuf has two empty fields and JSON a newline, which may be missing.
  for (size_t size = 0; size < body.size() - 4; ++size)
    EXPECT_FALSE(decode_list(Resource::Services, GetParam(), body.substr(0, size))) << size;
}

TEST(Wire, AFrameThatClaimsTooMuchIsRefusedBeforeItComes) {
  EXPECT_EQ(error_of(Encoding::Protobuf, std::string_view("\xff\xff\xff\xff", 4)),
            "an event of more than " + std::to_string(EventReader::kMaxEventBytes) + " bytes");
}

TEST(Wire, AnEventWithoutMagicIsNoProtobufOfKubernetes) {
  EXPECT_EQ(error_of(Encoding::Protobuf, encode::event("ADDED", "{\"a\":1}\n")),
            R"(not protobuf of Kubernetes: it begins with "{\"a\":1} ")");
  EXPECT_EQ(error_of(Encoding::Protobuf, encode::framed("")), R"(unknown type of event: "")");
}

TEST(Wire, AnEncodedObjectIsRefused) {
  std::string bytes = encode::object(service("a"));
  protozero::pbf_writer(bytes).add_string(3, "gzip");
  // The first one counts; there, it is empty.
  bytes = "k8s" + std::string(1, '\0') + "\x1a\x04gzip" + bytes.substr(4);
  EXPECT_EQ(error_of(Encoding::Protobuf, encode::event("ADDED", bytes)),
            R"(unknown encoding of an object: "gzip")");
}

TEST(Wire, JsonMayHaveWhiteSpaceBetweenEvents) {
  const auto event = encode::json_event("ADDED", service("a"));
  const auto outcome = read(Encoding::Json, {"\n \t\r\n" + event + "\n\n" + event + "  "});
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.events.size(), 2u);
}

TEST(Wire, JsonThatIsBrokenIsAnError) {
  EXPECT_EQ(error_of(Encoding::Json, "<html>"), R"(expected an event in JSON, got "<")");
  EXPECT_THAT(error_of(Encoding::Json, "{]"), StartsWith("broken JSON: line 1, column 2: "));
  EXPECT_EQ(error_of(Encoding::Json, "{}"), R"(unknown type of event: "")");
  EXPECT_EQ(error_of(Encoding::Json, R"({"type":"ADDED","object":null})"),
            "expected Service, got an object without kind");
}

TEST(Wire, AJsonListMayHaveNoItems) {
  const auto empty = [](const std::string& items) {
    return decode_list(Resource::Services, Encoding::Json,
                       R"({"apiVersion":"v1","items":)" + items +
                           R"(,"metadata":{"resourceVersion":"3"},"kind":"ServiceList"})");
  };
  EXPECT_THAT(empty("null")->items, IsEmpty());
  EXPECT_EQ(empty("[]")->resource_version, "3");
  EXPECT_EQ(empty("{}").error().text, "broken JSON: expected an array");
  EXPECT_EQ(empty("[1]").error().text, "expected Service, got no object");
  EXPECT_EQ(empty(R"([{"kind":"Pod"}])").error().text, "expected Service, got Pod");
  EXPECT_THAT(empty(R"([{"metadata":tru}])").error().text, HasSubstr("broken JSON: line 1"));
}

TEST(Wire, TheContentTypeSaysTheEncoding) {
  EXPECT_EQ(encoding_of("application/vnd.kubernetes.protobuf;stream=watch"), Encoding::Protobuf);
  EXPECT_EQ(encoding_of("application/vnd.kubernetes.protobuf"), Encoding::Protobuf);
  EXPECT_EQ(encoding_of("Application/JSON; charset=utf-8"), Encoding::Json);
  EXPECT_EQ(encoding_of("text/html").error().text,
            R"(expected protobuf or JSON of Kubernetes, got "text/html")");
  EXPECT_EQ(encoding_of("").error().text,
            "expected protobuf or JSON of Kubernetes, got no content type");
}

}  // namespace
}  // namespace source::api
