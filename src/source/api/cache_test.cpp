#include "source/api/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "model/store.h"
#include "support/builders.h"

namespace source::api {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Item item(const std::string& ns, const std::string& name, Item::Object object = {}) {
  return {.ns = ns, .name = name, .resource_version = "1", .object = std::move(object)};
}
Item service(const std::string& name) {
  return item("default", name, build::service("default/" + name).ptr());
}
Item slice(const std::string& name, const std::string& service) {
  return item("default", name, build::slice("default/" + service, name).ptr());
}
// There, but not for us.
Item broken(const std::string& name) { return item("default", name); }

// "service default/a", "-service default/a": one word per change.
std::string shown(const model::Change& change) {
  struct Show {
    std::string operator()(const std::shared_ptr<const model::Service>& s) {
      return "service " + s->key.str();
    }
    std::string operator()(const std::shared_ptr<const model::EndpointSlice>& s) {
      return "slice " + s->service.str() + ":" + s->name;
    }
    std::string operator()(const std::shared_ptr<const model::Node>& n) {
      return "node " + n->name;
    }
    std::string operator()(const std::shared_ptr<const model::ServiceCidr>& c) {
      return "cidr " + c->name;
    }
    std::string operator()(const model::ServiceDeleted& gone) {
      return "-service " + gone.key.str();
    }
    std::string operator()(const model::SliceDeleted& gone) {
      return "-slice " + gone.key.service.str() + ":" + gone.key.name;
    }
    std::string operator()(const model::NodeDeleted& gone) { return "-node " + gone.name; }
    std::string operator()(const model::ServiceCidrDeleted& gone) { return "-cidr " + gone.name; }
  };
  return std::visit(Show{}, change);
}

std::vector<std::string> shown(const std::vector<model::Change>& changes) {
  std::vector<std::string> out;
  for (const auto& change : changes)
    out.push_back(shown(change));
  return out;
}

std::vector<std::string> apply(Cache& cache, EventType type, Item what) {
  std::vector<model::Change> out;
  cache.apply({.type = type, .item = std::move(what)}, out);
  return shown(out);
}

std::vector<std::string> replace(Cache& cache, std::vector<Item> items) {
  std::vector<model::Change> out;
  cache.replace(std::move(items), out);
  return shown(out);
}

TEST(Cache, PassesOnWhatComesAndGoes) {
  Cache cache(Resource::Services);
  EXPECT_THAT(apply(cache, EventType::Added, service("a")), ElementsAre("service default/a"));
  EXPECT_THAT(apply(cache, EventType::Modified, service("a")), ElementsAre("service default/a"));
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_THAT(apply(cache, EventType::Deleted, broken("a")), ElementsAre("-service default/a"));
  EXPECT_THAT(apply(cache, EventType::Deleted, broken("a")), IsEmpty());
  EXPECT_EQ(cache.size(), 0u);
}

TEST(Cache, EachResourceHasItsOwnEnd) {
  Cache nodes(Resource::Nodes);
  apply(nodes, EventType::Added,
        item("", "n", std::make_shared<const model::Node>(model::Node{"n"})));
  EXPECT_THAT(apply(nodes, EventType::Deleted, item("", "n")), ElementsAre("-node n"));
  Cache cidrs(Resource::ServiceCidrs);
  apply(cidrs, EventType::Added,
        item("", "c", std::make_shared<const model::ServiceCidr>(model::ServiceCidr{"c"})));
  EXPECT_THAT(apply(cidrs, EventType::Deleted, item("", "c")), ElementsAre("-cidr c"));
}

TEST(Cache, ASliceEndsAtTheServiceThatItBelongedToLast) {
  Cache cache(Resource::EndpointSlices);
  apply(cache, EventType::Added, slice("s", "a"));
  EXPECT_THAT(apply(cache, EventType::Modified, slice("s", "b")),
              ElementsAre("-slice default/a:s", "slice default/b:s"));
  EXPECT_THAT(apply(cache, EventType::Deleted, slice("s", "c")), ElementsAre("-slice default/b:s"));
}

TEST(Cache, AnObjectThatTurnsUnusableIsAsAbsent) {
  Cache cache(Resource::EndpointSlices);
  EXPECT_THAT(apply(cache, EventType::Added, broken("s")), IsEmpty());
  apply(cache, EventType::Modified, slice("s", "a"));
  EXPECT_THAT(apply(cache, EventType::Modified, broken("s")), ElementsAre("-slice default/a:s"));
  EXPECT_THAT(apply(cache, EventType::Deleted, broken("s")), IsEmpty());
}

TEST(Cache, BookmarksAndErrorsChangeNothing) {
  Cache cache(Resource::Services);
  apply(cache, EventType::Added, service("a"));
  EXPECT_THAT(apply(cache, EventType::Bookmark, {}), IsEmpty());
  EXPECT_THAT(apply(cache, EventType::Error, {}), IsEmpty());
  EXPECT_EQ(cache.size(), 1u);
}

TEST(Cache, AListEndsWhatItDoesNotHave) {
  Cache cache(Resource::EndpointSlices);
  EXPECT_THAT(replace(cache, {slice("s", "a"), slice("t", "a"), slice("u", "a"), slice("v", "a")}),
              ElementsAre("slice default/a:s", "slice default/a:t", "slice default/a:u",
                          "slice default/a:v"));
  EXPECT_THAT(
      replace(cache, {slice("s", "a"), slice("t", "b"), broken("u"), slice("w", "a")}),
      UnorderedElementsAre("slice default/a:s", "-slice default/a:t", "slice default/b:t",
                           "-slice default/a:u", "-slice default/a:v", "slice default/a:w"));
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_THAT(replace(cache, {}), UnorderedElementsAre("-slice default/a:s", "-slice default/b:t",
                                                       "-slice default/a:w"));
  EXPECT_EQ(cache.size(), 0u);
}

TEST(Cache, OfAnObjectThatAListHasTwiceTheLastCounts) {
  Cache cache(Resource::EndpointSlices);
  EXPECT_THAT(replace(cache, {slice("s", "a"), slice("s", "b")}),
              ElementsAre("slice default/a:s", "-slice default/a:s", "slice default/b:s"));
  EXPECT_EQ(cache.size(), 1u);
}

TEST(Cache, NamesWithASlashDoNotHitOthers) {
  Cache cache(Resource::Services);
  apply(cache, EventType::Added, service("a"));
  EXPECT_THAT(apply(cache, EventType::Deleted, item("default/a", "x")), IsEmpty());
  EXPECT_THAT(apply(cache, EventType::Deleted, item("default", "/a")), IsEmpty());
  EXPECT_THAT(apply(cache, EventType::Deleted, item("", "default/a")), IsEmpty());
  EXPECT_EQ(cache.size(), 1u);
}

// Whatever happened before, a list brings the model to where a new one would be.
RC_GTEST_PROP(Cache, AfterAListTheModelHasWhatTheListHas, ()) {
  const auto any_slice = [] {
    const auto name = "s" + std::to_string(*rc::gen::inRange(0, 4));
    const int owner = *rc::gen::inRange(0, 4);
    return owner == 3 ? broken(name) : slice(name, "svc" + std::to_string(owner));
  };
  model::Store store("node");
  Cache cache(Resource::EndpointSlices);
  std::vector<model::Change> changes;
  for (int i = *rc::gen::inRange(0, 30); i > 0; --i) {
    const auto type = *rc::gen::element(EventType::Added, EventType::Modified, EventType::Deleted);
    cache.apply({.type = type, .item = any_slice()}, changes);
  }
  std::vector<Item> items;
  for (int i = *rc::gen::inRange(0, 5); i > 0; --i)
    items.push_back(any_slice());
  cache.replace(items, changes);
  for (auto& change : changes)
    store.fold(std::move(change));

  model::Store fresh("node");
  std::vector<model::Change> only;
  Cache(Resource::EndpointSlices).replace(std::move(items), only);
  for (auto& change : only)
    fresh.fold(std::move(change));
  const auto text = [](const model::Store& of) {
    std::string out;
    of.snapshot()->services.for_each([&](const auto& entry) {
      for (const auto& one : entry->slices)
        out += entry->key.str() + ":" + one->name + "\n";
    });
    return out;
  };
  RC_ASSERT(text(store) == text(fresh));
}

}  // namespace
}  // namespace source::api
