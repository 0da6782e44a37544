#include "daemon/problems.h"

#include <gmock/gmock.h>

namespace proxyd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ProblemBookTest : public testing::Test {
 protected:
  static backend::Problem problem(const std::string& name, const std::string& text) {
    return {{"default", name}, text};
  }
  // What is told when a sync finds these.
  std::vector<std::string> find(net::Family family, bool full, std::set<model::ServiceKey> services,
                                std::vector<backend::Problem> found) {
    told.clear();
    book.take({family, full, std::move(services), std::move(found)});
    return told;
  }

  std::vector<std::string> told;
  ProblemBook book{
      [this](const backend::Problem& one) { told.push_back(one.service.name + ": " + one.text); }};
  const model::ServiceKey a{"default", "a"};
};

TEST_F(ProblemBookTest, EachIsToldOnce) {
  EXPECT_THAT(find(net::Family::V4, true, {}, {problem("a", "x")}), ElementsAre("a: x"));
  EXPECT_THAT(find(net::Family::V4, true, {}, {problem("a", "x")}), IsEmpty());
  EXPECT_THAT(find(net::Family::V4, false, {a}, {problem("a", "x")}), IsEmpty());
}

TEST_F(ProblemBookTest, TheOtherFamilyRepeatsNothing) {
  EXPECT_THAT(find(net::Family::V4, true, {}, {problem("a", "x")}), ElementsAre("a: x"));
  EXPECT_THAT(find(net::Family::V6, true, {}, {problem("a", "x"), problem("b", "y")}),
              ElementsAre("b: y"));
}

TEST_F(ProblemBookTest, OneThatComesBackIsToldAgain) {
  find(net::Family::V4, true, {}, {problem("a", "x"), problem("b", "y")});
  EXPECT_THAT(find(net::Family::V4, false, {a}, {}), IsEmpty());
  EXPECT_THAT(find(net::Family::V4, false, {a}, {problem("a", "x")}), ElementsAre("a: x"));
  EXPECT_THAT(find(net::Family::V4, true, {}, {problem("a", "x"), problem("b", "y")}), IsEmpty());
}

}  // namespace
}  // namespace proxyd
