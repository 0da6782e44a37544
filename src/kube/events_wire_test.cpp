#include "kube/events_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

namespace kube {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;
using std::chrono::system_clock;
using testing::ElementsAre;

constexpr std::string_view kProtobuf = "application/vnd.kubernetes.protobuf";

// 2026-11-16T02:30:19.000123456Z
const system_clock::time_point kNow{nanoseconds(1'794'796'219'000'123'456)};

Event starting() {
  return {.regarding = {.kind = "Node", .name = "node-1"},
          .reason = "Starting",
          .action = "StartKubeProxy"};
}

Event failed_listen() {
  return {.regarding = {.kind = "Service", .ns = "web", .name = "lb"},
          .type = Event::Type::Warning,
          .reason = "FailedToStartServiceHealthcheck",
          .action = "Listen",
          .note = "node \"a\" failed"};
}

EventObject with_series(EventObject object) {
  object.series = EventSeries{.count = 2, .last_observed = kNow + microseconds(1)};
  return object;
}

// Any message as lines "1.3=text": paths of field numbers and their values, in order. `messages`
// are the paths that are messages themselves.
void print(protozero::pbf_reader reader, const std::string& path,
           const std::vector<std::string>& messages, std::vector<std::string>& out) {
  while (reader.next()) {
    const std::string here = path + std::to_string(reader.tag());
    if (std::ranges::count(messages, here) > 0) {
      print(protozero::pbf_reader(reader.get_view()), here + ".", messages, out);
    } else if (reader.wire_type() == protozero::pbf_wire_type::varint) {
      out.push_back(here + "=" + std::to_string(reader.get_int64()));
    } else {
      out.push_back(here + "=" + reader.get_string());
    }
  }
}

std::vector<std::string> decoded(const std::string& body) {
  EXPECT_TRUE(body.starts_with(std::string_view("k8s\0", 4)));
  std::vector<std::string> out;
  print(protozero::pbf_reader(body.data() + 4, body.size() - 4), "",
        {"1", "2", "2.1", "2.2", "2.3", "2.3.2", "2.8"}, out);
  return out;
}

TEST(EventsWire, AnEventIsNamedAfterItsObjectAndTheMoment) {
  EXPECT_EQ(make_event_object(starting(), "h", kNow).name, "node-1.18e865a6e5b77040");
  EXPECT_EQ(make_event_object(starting(), "h", kNow).ns, "default");
  EXPECT_EQ(make_event_object(failed_listen(), "h", kNow).ns, "web");
}

TEST(EventsWire, AnEventIsCreatedInProtobuf) {
  const auto request = create_request(make_event_object(starting(), "host-a", kNow), kProtobuf);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/apis/events.k8s.io/v1/namespaces/default/events");
  EXPECT_EQ(request.content_type, kProtobuf);
  EXPECT_THAT(decoded(request.body),
              ElementsAre("1.1=events.k8s.io/v1", "1.2=Event",                 // the envelope
                          "2.1.1=node-1.18e865a6e5b77040", "2.1.3=default",    // metadata
                          "2.2.1=1794796219", "2.2.2=123000",                  // eventTime
                          "2.4=kube-proxy", "2.5=kube-proxy-host-a",           // reporting...
                          "2.6=StartKubeProxy", "2.7=Starting",                // action, reason
                          "2.8.1=Node", "2.8.2=", "2.8.3=node-1", "2.8.5=v1",  // regarding
                          "2.10=", "2.11=Normal"));                            // note, type
}

TEST(EventsWire, AnEventIsCreatedInJson) {
  const auto request =
      create_request(make_event_object(failed_listen(), "host-a", kNow), "application/json");
  EXPECT_EQ(request.path, "/apis/events.k8s.io/v1/namespaces/web/events");
  EXPECT_EQ(request.content_type, "application/json");
  EXPECT_EQ(request.body,
            R"({"kind":"Event","apiVersion":"events.k8s.io/v1",)"
            R"("metadata":{"name":"lb.18e865a6e5b77040","namespace":"web"},)"
            R"("eventTime":"2026-11-16T02:30:19.000123Z",)"
            R"("reportingController":"kube-proxy","reportingInstance":"kube-proxy-host-a",)"
            R"("action":"Listen","reason":"FailedToStartServiceHealthcheck",)"
            R"("regarding":{"kind":"Service","namespace":"web","name":"lb","apiVersion":"v1"},)"
            R"("note":"node \"a\" failed","type":"Warning"})");
}

TEST(EventsWire, ASeriesIsPartOfAnEventThatIsCreatedAnew) {
  const auto object = with_series(make_event_object(starting(), "h", kNow));
  EXPECT_THAT(decoded(create_request(object, kProtobuf).body),
              testing::IsSupersetOf({"2.3.1=2", "2.3.2.1=1794796219", "2.3.2.2=124000"}));
  EXPECT_THAT(create_request(object, "application/json").body,
              testing::HasSubstr(R"("series":{"count":2,"lastObservedTime":)"
                                 R"("2026-11-16T02:30:19.000124Z"})"));
}

TEST(EventsWire, APatchHasTheSeriesAlone) {
  const auto request = patch_request(with_series(make_event_object(failed_listen(), "h", kNow)));
  EXPECT_EQ(request.method, "PATCH");
  EXPECT_EQ(request.path, "/apis/events.k8s.io/v1/namespaces/web/events/lb.18e865a6e5b77040");
  EXPECT_EQ(request.content_type, "application/strategic-merge-patch+json");
  EXPECT_EQ(request.body,
            R"({"series":{"count":2,"lastObservedTime":"2026-11-16T02:30:19.000124Z"}})");
}

std::string refusal(const std::string& body) {
  return refusal_text({.status = 403, .content_type = "", .body = body});
}

TEST(EventsWire, ARefusalIsToldInTheServersWords) {
  EXPECT_EQ(refusal(R"({"kind":"Status","message":"events is forbidden","code":403})"),
            "events is forbidden");
  std::string status;
  protozero::pbf_writer(status).add_string(2, "Failure");
  protozero::pbf_writer(status).add_string(3, "events is forbidden");
  std::string body("k8s\0", 4);
  protozero::pbf_writer(body).add_bytes(2, status);
  EXPECT_EQ(refusal(body), "events is forbidden");
}

TEST(EventsWire, ARefusalWithoutWordsIsToldByItsCode) {
  for (const std::string& body :
       {std::string(), std::string("<html>"), std::string("[1]"), std::string("{\"message\":1}"),
        std::string("k8s\0", 4), std::string("k8s\0\x12\x7f", 6), std::string("k8s\0\x10\x01", 6)})
    EXPECT_EQ(refusal(body), "the server answered with status 403");
}

}  // namespace
}  // namespace kube
