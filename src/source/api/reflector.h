// Keeps up with one resource of the API server: its state as a whole first, then every change.
//
// The state comes as a stream if the server can do that, else as a list in pages. A watch follows, which
// is opened again where the last one ended; a server that no longer knows that place gives its state anew.
// Whatever goes wrong, the last state stays in force, and after a pause it is tried again, for as long as
// the process lives.
//
// Lives on the loop thread. Logs nothing: the owner gets notices.
#pragma once

#include <chrono>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "event/async.h"
#include "kube/client.h"
#include "model/change.h"
#include "source/api/backoff.h"
#include "source/api/cache.h"
#include "source/api/queries.h"
#include "source/api/wire.h"
#include "source/trigger_time.h"

namespace source::api {

struct Listener {
  // In order. The first call has the whole state.
  std::function<void(std::vector<model::Change>)> changes;
  // Once, after that first call.
  std::function<void()> synced;
  kube::Tell tell;
  // Each time something of the server has arrived, were it only a bookmark: how long decoding it took.
  // May be empty, as the next.
  std::function<void(std::chrono::nanoseconds decoding)> heard{};
  // A change has arrived that says when it happened: how long ago that was.
  std::function<void(std::chrono::nanoseconds lag)> lagged{};
};

// What the tests replace.
struct Surroundings {
  std::function<std::chrono::steady_clock::time_point()> clock;
  std::function<event::Async<>(std::chrono::nanoseconds)> sleep;
  std::function<double()> chance;  // in [0, 1)
  std::function<std::chrono::system_clock::time_point()> wall = &std::chrono::system_clock::now;

  static Surroundings real();
};

class Reflector {
 public:
  // A server that has more is not believed.
  static constexpr size_t kMaxObjects = 500'000;

  // `client` outlives the reflector. Without `stream_the_state` (gate WatchListClient) lists are all that
  // is asked for.
  Reflector(Query query, bool stream_the_state, kube::Client& client, Listener listener,
            Surroundings surroundings = Surroundings::real());
  ~Reflector();

  // Never ends by itself.
  event::Async<> run();

 private:
  // Why something did not work, and what that means for the next step.
  struct Failure {
    enum class Kind { Unreachable, Throttled, Expired, Other };
    Kind kind = Kind::Other;
    std::string text;
    bool opening = false;  // it was a watch that could not be opened
  };
  template <typename T = void>
  using Outcome = std::expected<T, Failure>;
  using Changes = std::vector<model::Change>;

  // A watch that is open.
  struct Watch;
  using WatchPtr = std::unique_ptr<Watch>;
  // The state of the server while it arrives piece by piece.
  class Gathering;

  event::Async<> cycle();
  event::Async<Outcome<WatchPtr>> stream_state();
  event::Async<Outcome<WatchPtr>> try_to_stream_state();
  std::string known_version() const;
  std::string first_version() const;
  event::Async<Outcome<>> gather(Watch& watch, Gathering& state);
  event::Async<Outcome<>> list();
  event::Async<Outcome<>> list_at(const std::string& version);
  event::Async<Outcome<ListPage>> list_page(const std::string& query);
  event::Async<Outcome<>> follow(WatchPtr& watch);
  event::Async<Outcome<>> consume(Watch& watch);
  event::Async<Outcome<WatchPtr>> open(const std::string& query, std::chrono::seconds lasts);
  event::Async<> pause();
  event::Async<> pause_after_brief(const Watch& watch);

  Outcome<> take(Event event, Changes& changes);
  Outcome<> take_bookmark(const Event& event);
  void replace(std::vector<Item> items, std::string version);
  void deliver(Changes changes);
  void tell_problem(const Item& item) const;
  template <typename Decode>
  auto hear(Decode decode);
  // When the change happened that the object tells of, but not later than `now`.
  static TriggerTime trigger_of(const Item& item, TriggerTime now);
  void tell_lag(const Item& item);

  static Failure failure_of(const base::Error& error);
  static Failure failure_of(const Status& status);
  static Failure too_many();  // more than kMaxObjects
  bool lasted_long(const Watch& watch) const;
  std::chrono::seconds random_lifetime();

  void tell(kube::Notice::Severity severity, int verbosity, std::string message,
            std::string err) const;
  void tell_trouble(const Failure& failure);
  void tell_recovery();

  Query query_;
  bool stream_the_state_;
  kube::Client& client_;
  Listener listener_;
  Surroundings around_;
  Cache cache_;
  Backoff backoff_;
  std::string version_;               // the last one seen; empty until the first state
  bool version_unavailable_ = false;  // the server no longer has it
  bool paginated_ = false;            // the first list came in pages
  bool synced_ = false;
  bool follow_versions_ = true;  // false while a watch from "0" sends what was there before
  std::optional<Backoff::Time> trouble_since_;
  TriggerTime newest_trigger_{};
};

}  // namespace source::api
