#include "source/merge.h"

#include <map>
#include <optional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace source {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Object service(const std::string& name, uint16_t port = 80) {
  auto service = std::make_shared<model::Service>();
  service->key = {"default", name};
  service->ports = {{.name = {}, .port = port}};
  return {ServicePtr(std::move(service)), {}};
}

SlicePtr make_slice(const std::string& name, const std::string& service, uint16_t port) {
  auto slice = std::make_shared<model::EndpointSlice>();
  slice->service = {"default", service};
  slice->name = name;
  slice->ports = {{.name = {}, .port = port}};
  return slice;
}

Object slice(const std::string& name, const std::string& service, uint16_t port = 80) {
  return {make_slice(name, service, port), {}};
}

Object endpoints(const std::string& name, uint16_t port = 80) {
  return {Endpoints{{"default", name}, {make_slice(name + "-0", name, port)}}, {}};
}

Object node(const std::string& name) {
  auto node = std::make_shared<model::Node>();
  node->name = name;
  return {NodePtr(std::move(node)), {}};
}

Object at_line(uint32_t line, Object object) {
  object.at.line = line;
  return object;
}

std::string str(uint16_t port) { return std::to_string(port); }

// "service web" -> "80", and without the port if it is gone. For a slice the service is part of it.
struct Described {
  std::string what;
  std::optional<std::string> port = {};
};

struct Describe {
  Described operator()(const ServicePtr& service) const {
    return {"service " + service->key.name, str(service->ports[0].port)};
  }
  Described operator()(const SlicePtr& slice) const {
    return {"slice " + slice->service.name + " " + slice->name, str(slice->ports[0].port)};
  }
  Described operator()(const NodePtr& node) const { return {"node " + node->name, ""}; }
  Described operator()(const ServiceCidrPtr& cidr) const { return {"cidr " + cidr->name, ""}; }
  Described operator()(const model::ServiceDeleted& gone) const {
    return {"service " + gone.key.name};
  }
  Described operator()(const model::SliceDeleted& gone) const {
    return {"slice " + gone.key.service.name + " " + gone.key.name};
  }
  Described operator()(const model::NodeDeleted& gone) const { return {"node " + gone.name}; }
  Described operator()(const model::ServiceCidrDeleted& gone) const {
    return {"cidr " + gone.name};
  }
};

// "service web 80", "-service web"
std::vector<std::string> changes(const Merge::Outcome& outcome) {
  std::vector<std::string> out;
  for (const auto& change : outcome.changes) {
    const Described described = std::visit(Describe(), change);
    out.push_back(described.port ? described.what + " " + *described.port : "-" + described.what);
  }
  return out;
}

// "Service default/web a:1 b:2", the loser first.
std::vector<std::string> duplicates(const Merge::Outcome& outcome) {
  std::vector<std::string> out;
  out.reserve(outcome.duplicates.size());
  for (const auto& one : outcome.duplicates) {
    out.push_back(one.object + " " + one.loser_file + ":" + std::to_string(one.loser_line) + " " +
                  one.winner_file + ":" + std::to_string(one.winner_line));
  }
  return out;
}

TEST(Merge, OneFileOfManyIsReplaced) {
  Merge merge;
  EXPECT_THAT(changes(merge.update({{"a", {service("x"), node("n")}}, {"b", {service("y")}}})),
              ElementsAre("node n ", "service x 80", "service y 80"));
  EXPECT_THAT(changes(merge.update({{"b", {service("z")}}})),
              ElementsAre("-service y", "service z 80"));
  EXPECT_THAT(changes(merge.update({{"a", {}}})), ElementsAre("-node n", "-service x"));
  EXPECT_THAT(changes(merge.update({{"a", {}}})), IsEmpty());
}

TEST(Merge, ObjectsThatMoveBetweenFilesAreNoChange) {
  Merge merge;
  merge.update({{"a", {service("x"), slice("x-1", "x")}}});
  const auto moved = merge.update({{"a", {}}, {"b", {service("x"), slice("x-1", "x")}}});
  EXPECT_THAT(changes(moved), IsEmpty());
  EXPECT_THAT(duplicates(moved), IsEmpty());
}

TEST(Merge, TheLastFileByNameWinsWhicheverCameLast) {
  Merge merge;
  merge.update({{"b", {service("x", 2)}}});
  EXPECT_THAT(changes(merge.update({{"a", {service("x", 1)}}})), IsEmpty());
  EXPECT_THAT(changes(merge.update({{"c", {service("x", 3)}}})), ElementsAre("service x 3"));
  EXPECT_THAT(changes(merge.update({{"b", {}}})), IsEmpty());
  EXPECT_THAT(changes(merge.update({{"c", {}}})), ElementsAre("service x 1"));
}

TEST(Merge, ADuplicateIsToldOnceAndAgainWhenItComesAnew) {
  Merge merge;
  merge.update({{"a", {at_line(1, service("x"))}}});
  EXPECT_THAT(duplicates(merge.update({{"b", {at_line(5, service("x"))}}})),
              ElementsAre("Service default/x a:1 b:5"));
  EXPECT_THAT(duplicates(merge.update({{"b", {at_line(7, service("x", 2))}}})), IsEmpty());
  EXPECT_THAT(duplicates(merge.update({{"a", {at_line(2, service("x", 3))}}})), IsEmpty());
  EXPECT_THAT(duplicates(merge.update({{"b", {}}})), IsEmpty());
  EXPECT_THAT(duplicates(merge.update({{"b", {at_line(9, service("x"))}}})),
              ElementsAre("Service default/x a:2 b:9"));
}

TEST(Merge, OfManyDefinitionsEachIsToldWithTheNext) {
  Merge merge;
  EXPECT_THAT(duplicates(merge.update(
                  {{"a", {at_line(1, node("n")), at_line(2, node("n")), at_line(3, node("n"))}},
                   {"b", {at_line(4, node("n"))}},
                   {"c", {at_line(5, node("n"))}}})),
              ElementsAre("Node n a:1 a:2", "Node n a:3 b:4", "Node n b:4 c:5"));
  EXPECT_THAT(duplicates(merge.update({{"b", {}}})), ElementsAre("Node n a:3 c:5"));
}

TEST(Merge, ASliceThatLosesToThatOfAnotherServiceNoLongerHidesEndpoints) {
  Merge merge;
  merge.update({{"a", {endpoints("x"), slice("s", "x")}}});
  EXPECT_THAT(changes(merge.update({{"b", {slice("s", "y")}}})),
              ElementsAre("-slice x s", "slice y s 80", "slice x x-0 80"));
  EXPECT_THAT(changes(merge.update({{"b", {}}})),
              ElementsAre("-slice y s", "-slice x x-0", "slice x s 80"));
}

TEST(Merge, EndpointsThatComeLaterAreHiddenToo) {
  Merge merge;
  merge.update({{"b", {slice("s", "x")}}});
  EXPECT_THAT(changes(merge.update({{"a", {endpoints("x")}}})), IsEmpty());
  EXPECT_THAT(changes(merge.update({{"b", {}}})), ElementsAre("-slice x s", "slice x x-0 80"));
}

TEST(Merge, ASliceThatTakesThePlaceOfEndpointsUnderTheSameNameIsNoChange) {
  Merge merge;
  merge.update({{"a", {endpoints("x")}}});
  EXPECT_THAT(changes(merge.update({{"a", {slice("x-0", "x")}}})), IsEmpty());
}

TEST(Merge, EqualObjectsAreInMemoryOnce) {
  Merge merge;
  merge.update({{"a", {service("x"), endpoints("x")}}});
  std::vector<Object> again{service("x"), endpoints("x")};
  const std::weak_ptr copy = std::get<ServicePtr>(again[0].any);
  const std::weak_ptr part = std::get<Endpoints>(again[1].any).slices[0];
  EXPECT_THAT(changes(merge.update({{"a", std::move(again)}})), IsEmpty());
  EXPECT_TRUE(copy.expired());
  EXPECT_TRUE(part.expired());
}

// What the files say, found the slow way; "service web" -> "80".
std::map<std::string, std::string> all_of(const Merge::Files& files) {
  std::map<std::string, Object> winners;
  for (const auto& [file, objects] : files) {
    for (const Object& object : objects) {
      std::string name;
      if (const auto* service = std::get_if<ServicePtr>(&object.any)) {
        name = "service " + (*service)->key.name;
      } else if (const auto* slice = std::get_if<SlicePtr>(&object.any)) {
        name = "slice " + (*slice)->name;
      } else {
        name = "zendpoints " + std::get<Endpoints>(object.any).key.name;  // after all slices
      }
      winners.insert_or_assign(name, object);
    }
  }
  std::map<std::string, std::string> out;
  std::set<std::string> with_slices;
  const auto add = [&](const Described& described) { out[described.what] = *described.port; };
  for (const auto& [name, object] : winners) {
    if (const auto* service = std::get_if<ServicePtr>(&object.any)) {
      add(Describe()(*service));
    } else if (const auto* slice = std::get_if<SlicePtr>(&object.any)) {
      with_slices.insert((*slice)->service.name);
      add(Describe()(*slice));
    } else if (const auto& own = std::get<Endpoints>(object.any);
               !with_slices.contains(own.key.name)) {
      for (const auto& part : own.slices)
        add(Describe()(part));
    }
  }
  return out;
}

TEST(Merge, AnyChangesAddUpToWhatTheFilesSay) {
  std::mt19937 random(1);
  const auto pick = [&](uint32_t count) { return static_cast<uint32_t>(random() % count); };
  const auto name = [&] { return std::string(1, static_cast<char>('a' + pick(4))); };
  const auto object = [&]() -> Object {
    const auto port = static_cast<uint16_t>(1 + pick(2));
    switch (pick(3)) {
      case 0:
        return service(name(), port);
      case 1:
        return slice(name() + "-0", name(), port);
      default:
        return endpoints(name(), port);
    }
  };
  Merge merge;
  Merge::Files files;
  std::map<std::string, std::string> state;
  for (int round = 0; round < 2000; ++round) {
    Merge::Files changed;
    for (uint32_t n = pick(3); n > 0; --n) {
      auto& objects = changed[name()];
      objects.clear();
      for (uint32_t count = pick(5); count > 0; --count)
        objects.push_back(object());
    }
    for (const auto& [file, objects] : changed)
      files[file] = objects;
    for (const auto& change : merge.update(std::move(changed)).changes) {
      const auto described = std::visit(Describe(), change);
      if (!described.port) {
        ASSERT_EQ(state.erase(described.what), 1u) << described.what;
      } else {
        ASSERT_NE(std::exchange(state[described.what], *described.port), *described.port);
      }
    }
    ASSERT_EQ(state, all_of(files)) << "round " << round;
  }
}

}  // namespace
}  // namespace source
