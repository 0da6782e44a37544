#include "source/api/reflector.h"

#include <algorithm>
#include <random>
#include <utility>

#include <boost/unordered/unordered_flat_map.hpp>

#include "http/watchdog.h"

namespace source::api {
namespace {

using base::ErrorCode;
using event::Async;
using kube::Notice;
using namespace std::chrono_literals;

constexpr int kPageSize = 500;
constexpr auto kBrief = 1s;           // a watch that ends sooner did not work
constexpr auto kStateReminder = 10s;  // while the state does not come to its end
constexpr size_t kMaxStatusBytes = 64 << 10;
constexpr auto kStatusPatience = 30s;

// Versions are numbers that grow, to everybody who can compare them.
bool older(std::string_view a, std::string_view b) {
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (!is_number(a) || !is_number(b)) return false;
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

}  // namespace

struct Reflector::Watch {
  std::unique_ptr<kube::Stream> stream;
  EventReader reader;
  Backoff::Time since;
  size_t events = 0;
};

class Reflector::Gathering {
 public:
  Outcome<> take(Event event) {
    switch (event.type) {
      case EventType::Bookmark:
        if (!event.initial_events_end) return {};
        version_ = std::move(event.item.resource_version);
        complete_ = true;
        return {};
      case EventType::Error:
        return std::unexpected(failure_of(event.status));
      default:
        return put(std::move(event));
    }
  }

  bool complete() const { return complete_; }
  std::vector<Item> items() {
    std::erase_if(items_, [](const Item& item) { return item.name.empty(); });
    return std::move(items_);
  }
  const std::string& version() const { return version_; }

 private:
  Outcome<> put(Event event) {
    const std::string key = event.item.ns + "/" + event.item.name;
    const auto [at, added] = index_.try_emplace(key, items_.size());
    if (added && items_.size() == kMaxObjects) return std::unexpected(too_many());
    if (added) items_.emplace_back();
    // One that is gone again leaves a place without a name.
    items_[at->second] = event.type == EventType::Deleted ? Item{} : std::move(event.item);
    return {};
  }

  std::vector<Item> items_;
  boost::unordered_flat_map<std::string, size_t> index_;
  std::string version_;
  bool complete_ = false;
};

Reflector::Failure Reflector::too_many() {
  return {Failure::Kind::Other,
          "the server has more than " + std::to_string(kMaxObjects) + " objects"};
}

Surroundings Surroundings::real() {
  return {
      .clock = &std::chrono::steady_clock::now,
      .sleep = &event::sleep_for,
      .chance =
          [random = std::mt19937_64(std::random_device()())]() mutable {
            return std::uniform_real_distribution<double>(0, 1)(random);
          },
  };
}

// Runs `decode`, which takes in what has arrived.
template <typename Decode>
auto Reflector::hear(Decode decode) {
  const auto start = around_.clock();
  auto result = decode();
  if (listener_.heard) listener_.heard(around_.clock() - start);
  return result;
}

Reflector::Reflector(Query query, bool stream_the_state, kube::Client& client, Listener listener,
                     Surroundings surroundings)
    : query_(std::move(query)),
      stream_the_state_(stream_the_state),
      client_(client),
      listener_(std::move(listener)),
      around_(std::move(surroundings)),
      cache_(query_.resource) {}

Reflector::~Reflector() = default;

Async<> Reflector::run() {
  while (true) {
    co_await cycle();
    co_await pause();
  }
}

// The state, then changes until something breaks.
Async<> Reflector::cycle() {
  WatchPtr watch;
  if (stream_the_state_) {
    auto streamed = co_await stream_state();
    if (streamed) {
      watch = std::move(*streamed);
    } else {
      tell(Notice::Severity::Info, 4, "The state cannot be streamed, asking for a list",
           streamed.error().text);
    }
  }
  if (watch == nullptr) {
    const auto listed = co_await list();
    if (!listed) {
      if (!trouble_since_) trouble_since_ = around_.clock();
      tell(Notice::Severity::Error, 0, "Failed to watch",
           "failed to list " + std::string(query_.type_name()) + ": " + listed.error().text);
      co_return;
    }
  }
  tell_recovery();
  const auto ended = co_await follow(watch);
  if (ended) co_return;
  const Failure& failure = ended.error();
  if (failure.opening && failure.kind != Failure::Kind::Expired) {
    tell(Notice::Severity::Error, 0, "Failed to watch",
         "failed to watch " + std::string(query_.type_name()) + ": " + failure.text);
  } else {
    tell(Notice::Severity::Info, 0, "Warning: watch ended with error", failure.text);
  }
}

// Until it works, or cannot work in this way.
Async<Reflector::Outcome<Reflector::WatchPtr>> Reflector::stream_state() {
  while (true) {
    auto watch = co_await try_to_stream_state();
    if (watch) {
      if (*watch != nullptr) co_return std::move(watch);
      tell_trouble({Failure::Kind::Other, "the stream ended before the state was complete"});
      co_await pause();
      continue;
    }
    switch (watch.error().kind) {
      case Failure::Kind::Unreachable:
      case Failure::Kind::Throttled:
        tell_trouble(watch.error());
        co_await pause();
        break;
      case Failure::Kind::Expired:
        if (version_unavailable_) co_return std::move(watch);
        version_unavailable_ = true;
        break;
      case Failure::Kind::Other:
        co_return std::move(watch);
    }
  }
}

// The version to go on from; empty: the newest.
std::string Reflector::known_version() const { return version_unavailable_ ? "" : version_; }

// The version to list at: any will do at first.
std::string Reflector::first_version() const {
  if (version_unavailable_) return "";
  return version_.empty() ? "0" : version_;
}

// Null: the stream ended before the state was complete.
Async<Reflector::Outcome<Reflector::WatchPtr>> Reflector::try_to_stream_state() {
  const auto lasts = random_lifetime();
  const std::string query = query_.state_and_watch(known_version(), lasts);
  auto watch = co_await open(query, lasts);
  if (!watch) co_return std::move(watch);
  Gathering state;
  const auto gathered = co_await gather(**watch, state);
  if (!gathered) co_return std::unexpected(gathered.error());
  if (!state.complete()) {
    if ((*watch)->events == 0 && !lasted_long(**watch)) {
      co_return std::unexpected(
          Failure{Failure::Kind::Other, "the stream ended at once, without any event"});
    }
    co_return nullptr;
  }
  co_return std::move(watch);
}

// Reads until the state is complete, and puts it in force together with what came right behind it.
Async<Reflector::Outcome<>> Reflector::gather(Watch& watch, Gathering& state) {
  const auto executor = co_await boost::asio::this_coro::executor;
  http::Watchdog* rearm = nullptr;
  http::Watchdog reminder(executor, [&] {
    tell(Notice::Severity::Warning, 0, "Still waiting for the API server to send its whole state",
         {});
    rearm->arm(kStateReminder);
  });
  rearm = &reminder;
  size_t received = 0;
  while (!state.complete()) {
    reminder.arm(kStateReminder);
    const auto bytes = co_await watch.stream->read();
    if (!bytes &&
        (bytes.error().code == ErrorCode::Lost || bytes.error().code == ErrorCode::Timeout))
      co_return Outcome<>();
    if (!bytes) co_return std::unexpected(failure_of(bytes.error()));
    if (bytes->empty()) co_return Outcome<>();
    received += bytes->size();
    if (received > kube::Client::kMaxBodyBytes)
      co_return std::unexpected(Failure{Failure::Kind::Other, "the server's state is too large"});
    Outcome<> taken;
    Changes changes;
    const auto take_next = [&](Event event) {
      ++watch.events;
      if (!taken) return;
      if (state.complete()) {
        taken = take(std::move(event), changes);
        return;
      }
      taken = state.take(std::move(event));
      if (state.complete()) {
        follow_versions_ = true;
        replace(state.items(), state.version());
      }
    };
    const auto fed = hear([&] { return watch.reader.feed(*bytes, take_next); });
    deliver(std::move(changes));
    if (!taken) co_return std::move(taken);
    if (!fed) co_return std::unexpected(failure_of(fed.error()));
  }
  co_return Outcome<>();
}

Async<Reflector::Outcome<>> Reflector::list() {
  const std::string version = first_version();
  auto listed = co_await list_at(version);
  if (listed || listed.error().kind != Failure::Kind::Expired) co_return std::move(listed);
  version_unavailable_ = true;
  const std::string newest;
  listed = co_await list_at(newest);
  co_return std::move(listed);
}

Async<Reflector::Outcome<>> Reflector::list_at(const std::string& version) {
  const bool at_version = !version.empty() && version != "0";
  const int limit = at_version && !paginated_ ? 0 : kPageSize;
  std::string query = query_.list(version, limit);
  std::vector<Item> items;
  bool first = true;
  while (true) {
    auto page = co_await list_page(query);
    if (!page && page.error().kind == Failure::Kind::Expired && !first) {
      // The server no longer has what the rest of the pages would be cut from.
      query = query_.list(version, 0);
      items.clear();
      first = true;
      page = co_await list_page(query);
    }
    if (!page) co_return std::unexpected(page.error());
    if (page->items.empty() && !page->continue_token.empty())
      co_return std::unexpected(
          Failure{Failure::Kind::Other, "an empty page that is not the last"});
    if (items.size() + page->items.size() > kMaxObjects) co_return std::unexpected(too_many());
    items.insert(items.end(), std::make_move_iterator(page->items.begin()),
                 std::make_move_iterator(page->items.end()));
    if (page->continue_token.empty()) {
      replace(std::move(items), std::move(page->resource_version));
      co_return Outcome<>();
    }
    if (version == "0") paginated_ = true;
    first = false;
    query = query_.next_page(page->continue_token, kPageSize);
  }
}

Async<Reflector::Outcome<ListPage>> Reflector::list_page(const std::string& query) {
  const kube::Request request{.path = std::string(query_.path()), .query = query};
  const auto response = co_await client_.request(request);
  if (!response) co_return std::unexpected(failure_of(response.error()));
  if (response->status != 200) {
    co_return std::unexpected(
        failure_of(decode_status(response->status, response->content_type, response->body)));
  }
  const auto encoding = encoding_of(response->content_type);
  if (!encoding) co_return std::unexpected(failure_of(encoding.error()));
  auto page = hear([&] { return decode_list(query_.resource, *encoding, response->body); });
  if (!page) co_return std::unexpected(failure_of(page.error()));
  co_return std::move(*page);
}

// One watch after the other. Ends with a reason to ask for the whole state again.
Async<Reflector::Outcome<>> Reflector::follow(WatchPtr& watch) {
  while (true) {
    if (watch == nullptr) {
      follow_versions_ = !version_.empty() && version_ != "0";
      const auto lasts = random_lifetime();
      const std::string query = query_.watch(version_, lasts);
      auto opened = co_await open(query, lasts);
      if (opened) {
        watch = std::move(*opened);
      } else if (opened.error().kind == Failure::Kind::Unreachable ||
                 opened.error().kind == Failure::Kind::Throttled) {
        tell_trouble(opened.error());
        co_await pause();
        continue;
      } else {
        Failure failure = opened.error();
        failure.opening = true;
        co_return std::unexpected(failure);
      }
    }
    tell_recovery();
    const auto ended = co_await consume(*watch);
    const WatchPtr last = std::move(watch);
    if (!ended && ended.error().kind == Failure::Kind::Throttled) {
      tell_trouble(ended.error());
      co_await pause();
      continue;
    }
    if (!ended) co_return std::unexpected(ended.error());
    if (last->events == 0 && !lasted_long(*last)) {
      co_return std::unexpected(Failure{
          Failure::Kind::Other,
          "very short watch: " + std::string(query_.path()) +
              ": Unexpected watch close - watch lasted less than a second and no items received"});
    }
    co_await pause_after_brief(*last);
  }
}

// Takes in events until the stream ends. One that breaks off is as good as one that ends: the next watch
// goes on where it stopped.
Async<Reflector::Outcome<>> Reflector::consume(Watch& watch) {
  while (true) {
    const auto bytes = co_await watch.stream->read();
    if (!bytes &&
        (bytes.error().code == ErrorCode::Lost || bytes.error().code == ErrorCode::Timeout)) {
      tell(Notice::Severity::Info, 0, "Lost the connection of a watch, opening it again",
           bytes.error().text);
      co_return Outcome<>();
    }
    if (!bytes) co_return std::unexpected(failure_of(bytes.error()));
    if (bytes->empty()) co_return Outcome<>();
    Outcome<> taken;
    Changes changes;
    const auto take_next = [&](Event event) {
      ++watch.events;
      if (taken) taken = take(std::move(event), changes);
    };
    const auto fed = hear([&] { return watch.reader.feed(*bytes, take_next); });
    deliver(std::move(changes));
    if (!taken) co_return std::move(taken);
    if (!fed) co_return std::unexpected(failure_of(fed.error()));
  }
}

Async<Reflector::Outcome<Reflector::WatchPtr>> Reflector::open(const std::string& query,
                                                               std::chrono::seconds lasts) {
  const kube::Request request{.path = std::string(query_.path()), .query = query};
  const auto since = around_.clock();  // some proxies keep the head back until there is an event
  auto stream = co_await client_.stream(request, lasts);
  if (!stream) co_return std::unexpected(failure_of(stream.error()));
  if ((*stream)->status() != 200) {
    std::string body;
    while (body.size() < kMaxStatusBytes && around_.clock() - since < kStatusPatience) {
      const auto bytes = co_await (*stream)->read();
      if (!bytes || bytes->empty()) break;
      body += *bytes;
    }
    co_return std::unexpected(
        failure_of(decode_status((*stream)->status(), (*stream)->content_type(), body)));
  }
  const auto encoding = encoding_of((*stream)->content_type());
  if (!encoding) co_return std::unexpected(failure_of(encoding.error()));
  co_return std::make_unique<Watch>(
      Watch{std::move(*stream), EventReader(query_.resource, *encoding), since});
}

Async<> Reflector::pause() {
  const auto time = backoff_.next(around_.clock(), around_.chance());
  co_await around_.sleep(time);
}

// A server that answers and hangs up over and over is not asked without end.
Async<> Reflector::pause_after_brief(const Watch& watch) {
  const auto lasted = around_.clock() - watch.since;
  if (lasted < kBrief) co_await around_.sleep(kBrief - lasted);
}

Reflector::Outcome<> Reflector::take(Event event, Changes& changes) {
  if (event.type == EventType::Error) return std::unexpected(failure_of(event.status));
  if (event.type == EventType::Bookmark) return take_bookmark(event);
  tell_problem(event.item);
  tell_lag(event.item);
  if (event.type != EventType::Added) follow_versions_ = true;
  if (follow_versions_ && !event.item.resource_version.empty())
    version_ = event.item.resource_version;
  cache_.apply(std::move(event), changes);
  if (cache_.size() > kMaxObjects) return std::unexpected(too_many());
  return {};
}

Reflector::Outcome<> Reflector::take_bookmark(const Event& event) {
  const std::string& version = event.item.resource_version;
  if (older(version, version_)) {
    return std::unexpected(
        Failure{Failure::Kind::Other,
                "the server's bookmark went back from version " + version_ + " to " + version});
  }
  follow_versions_ = true;
  if (!version.empty()) version_ = version;
  return {};
}

void Reflector::replace(std::vector<Item> items, std::string version) {
  const TriggerTime now = around_.wall();
  for (const auto& item : items) {
    tell_problem(item);
    newest_trigger_ = std::max(newest_trigger_, trigger_of(item, now));
  }
  Changes changes;
  cache_.replace(std::move(items), changes);
  version_ = std::move(version);
  version_unavailable_ = false;
  deliver(std::move(changes));
  if (!std::exchange(synced_, true)) listener_.synced();
}

void Reflector::deliver(Changes changes) {
  if (!changes.empty()) listener_.changes(std::move(changes));
}

void Reflector::tell_problem(const Item& item) const {
  if (!item.problem.empty())
    tell(Notice::Severity::Warning, 0, "An object of the API is not used as it stands",
         item.problem);
}

TriggerTime Reflector::trigger_of(const Item& item, TriggerTime now) {
  const auto* slice = std::get_if<std::shared_ptr<const model::EndpointSlice>>(&item.object);
  return slice == nullptr ? TriggerTime() : std::min((*slice)->trigger_time, now);
}

// Of the newest change so far only: a slice that is sent again for another reason carries its old time.
void Reflector::tell_lag(const Item& item) {
  const TriggerTime now = around_.wall();
  const TriggerTime trigger = trigger_of(item, now);
  if (trigger <= newest_trigger_) return;
  newest_trigger_ = trigger;
  if (listener_.lagged) listener_.lagged(now - trigger);
}

Reflector::Failure Reflector::failure_of(const base::Error& error) {
  const bool refused = error.code == ErrorCode::Refused;
  return {refused ? Failure::Kind::Unreachable : Failure::Kind::Other, error.text};
}

Reflector::Failure Reflector::failure_of(const Status& status) {
  if (status.code == 429 || status.reason == "TooManyRequests")
    return {Failure::Kind::Throttled, status.message};
  if (status.code == 410 || status.reason == "Expired" || status.reason == "Gone" ||
      status.resource_version_too_large)
    return {Failure::Kind::Expired, status.message};
  return {Failure::Kind::Other, status.message};
}

bool Reflector::lasted_long(const Watch& watch) const {
  return around_.clock() - watch.since >= kBrief;
}

// So that the watches of a cluster do not all end at once.
std::chrono::seconds Reflector::random_lifetime() {
  return 300s + std::chrono::seconds(static_cast<int>(around_.chance() * 300));
}

void Reflector::tell(Notice::Severity severity, int verbosity, std::string message,
                     std::string err) const {
  listener_.tell(
      {.severity = severity,
       .verbosity = verbosity,
       .message = std::move(message),
       .err = std::move(err),
       .fields = {{"reflector", "kube-proxy"}, {"type", std::string(query_.type_name())}}});
}

// The first time for everybody to see; then it is known.
void Reflector::tell_trouble(const Failure& failure) {
  const bool known = trouble_since_.has_value();
  if (!known) trouble_since_ = around_.clock();
  tell(known ? Notice::Severity::Info : Notice::Severity::Warning, known ? 2 : 0,
       "Cannot watch the API server, the last state stays in force", failure.text);
}

void Reflector::tell_recovery() {
  if (!trouble_since_) return;
  const auto seconds = (around_.clock() - *trouble_since_) / 1s;
  trouble_since_.reset();
  listener_.tell({.severity = Notice::Severity::Info,
                  .message = "The API server can be watched again",
                  .fields = {{"type", std::string(query_.type_name())},
                             {"afterSeconds", std::to_string(seconds)}}});
}

}  // namespace source::api
