#include "http/server_places.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

namespace http {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

struct FakeHost final : Places::Host {
  using Host::Host;
  void try_again() override { ++asked; }
  int asked = 0;
};

struct FakeGuest final : Places::Guest {
  void make_way() override { gone = true; }
  bool gone = false;
};

class PlacesTest : public testing::Test {
 protected:
  std::shared_ptr<Places> places(size_t most, milliseconds settle = milliseconds(0)) {
    return std::make_shared<Places>(io_.get_executor(), most, settle);
  }

  boost::asio::io_context io_{1};
  FakeHost a_{2};
  FakeHost b_{2};
  FakeGuest first_;
  FakeGuest second_;
  FakeGuest third_;
};

TEST_F(PlacesTest, ThereIsRoomUntilTheHouseIsFull) {
  const auto all = places(9);
  EXPECT_TRUE(all->make_room(a_));
  all->enter(a_, first_);
  EXPECT_TRUE(all->make_room(a_));
  all->enter(a_, second_);
  EXPECT_FALSE(all->make_room(a_));
  EXPECT_TRUE(all->make_room(b_));
}

TEST_F(PlacesTest, ThereIsRoomUntilAllPlacesAreTaken) {
  const auto all = places(2);
  all->enter(a_, first_);
  all->enter(b_, second_);
  EXPECT_FALSE(all->make_room(a_));
  EXPECT_FALSE(all->make_room(b_));
}

TEST_F(PlacesTest, WhoeverHasBeenWaitedForLongestMakesWay) {
  const auto all = places(2);
  const auto first = all->enter(a_, first_);
  all->wait_for(all->enter(a_, second_));
  all->wait_for(first);
  EXPECT_TRUE(all->make_room(b_));
  EXPECT_TRUE(second_.gone);
  EXPECT_FALSE(first_.gone);
}

TEST_F(PlacesTest, AFullHouseMakesRoomInItself) {
  const auto all = places(9);
  all->wait_for(all->enter(b_, first_));
  all->wait_for(all->enter(a_, second_));
  all->enter(a_, third_);
  EXPECT_TRUE(all->make_room(a_));
  EXPECT_FALSE(first_.gone);
  EXPECT_TRUE(second_.gone);
}

TEST_F(PlacesTest, WhoeverWaitsForUsKeepsItsPlace) {
  const auto all = places(1);
  const auto first = all->enter(a_, first_);
  all->wait_for(first);
  all->serve(first);
  EXPECT_FALSE(all->make_room(b_));
  EXPECT_FALSE(first_.gone);
}

TEST_F(PlacesTest, NobodyMakesWayBeforeItHasSettled) {
  const auto all = places(1, hours(1));
  all->wait_for(all->enter(a_, first_));
  EXPECT_FALSE(all->make_room(b_));
}

TEST_F(PlacesTest, AHostThatIsHeldBackIsAskedWhenSomebodyLeaves) {
  const auto all = places(1);
  const auto first = all->enter(a_, first_);
  all->hold_back(b_);
  all->leave(first);
  io_.run();
  EXPECT_EQ(b_.asked, 1);
}

TEST_F(PlacesTest, AHostThatIsHeldBackIsAskedAgainByItself) {
  const auto all = places(1);
  all->hold_back(b_);
  io_.run();
  EXPECT_EQ(b_.asked, 1);
}

TEST_F(PlacesTest, NobodyIsAskedWhileThereIsNothingToBeHad) {
  const auto all = places(1);
  all->enter(a_, first_);
  all->hold_back(b_);
  io_.run_one();
  EXPECT_EQ(b_.asked, 0);
}

TEST_F(PlacesTest, AClosedHouseIsEmptyAndAsksForNothing) {
  const auto all = places(2);
  all->enter(a_, first_);
  all->enter(b_, second_);
  all->hold_back(a_);
  all->close(a_);
  EXPECT_TRUE(first_.gone);
  EXPECT_FALSE(second_.gone);
  io_.run();  // returns: nobody is held back
  EXPECT_EQ(a_.asked, 0);
}

TEST_F(PlacesTest, NothingIsWaitedForWhileNobodyIsHeldBack) {
  const auto all = places(1);
  all->wait_for(all->enter(a_, first_));
  EXPECT_EQ(io_.poll(), 0U);
  EXPECT_TRUE(io_.stopped());
}

}  // namespace
}  // namespace http
