#include "kube/events.h"

#include <deque>
#include <map>
#include <random>
#include <tuple>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>

#include "kube/events_wire.h"

namespace kube {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using event::Async;
using std::chrono::system_clock;

constexpr int kAttempts = 12;
constexpr std::chrono::seconds kPause{10};
constexpr double kJitter = 0.25;
constexpr size_t kMaxQueued = 1000;

// A series ends when nothing was added to it for that long; so often it is looked for.
constexpr std::chrono::minutes kFinish{6};
// Every fifth look, half an hour, every series is written: events that nobody writes are forgotten
// by the API server after an hour.
constexpr int kLooksPerRefresh = 5;

// Events that are repeats of each other. Their notes may differ.
using Key = std::tuple<Event::Type, std::string, std::string, Event::Regarding>;

Key key_of(const Event& event) { return {event.type, event.action, event.reason, event.regarding}; }

std::function<double()> some_random() {
  return [engine = std::mt19937_64(std::random_device()())]() mutable {
    return std::uniform_real_distribution<double>(0, 1)(engine);
  };
}

// How writing an event went: is another attempt worth while?
enum class Outcome { Done, Refused, TryAgain };

class Writer : public std::enable_shared_from_this<Writer> {
 public:
  Writer(const asio::any_io_executor& executor, Client& client, std::string content_type,
         std::string host, Tell tell, RecorderWorld world)
      : executor_(executor),
        client_(client),
        content_type_(std::move(content_type)),
        host_(std::move(host)),
        tell_(std::move(tell)),
        world_(std::move(world)),
        work_(executor),
        idle_(executor) {
    if (!world_.random) world_.random = some_random();
  }

  void start() {
    // Each keeps the writer alive until it has ended.
    const auto until_end = [self = shared_from_this()](const std::exception_ptr&) {};
    asio::co_spawn(executor_, write_queued(), until_end);
    asio::co_spawn(executor_, tend_series(), until_end);
  }

  void stop() {
    stopped_ = true;
    queue_.clear();
    work_.cancel();
    idle_.cancel();
  }

  void record(Event event) {
    if (queue_.size() >= kMaxQueued) {
      if (!std::exchange(told_full_, true))
        say(Notice::Severity::Warning, "Too many events wait to be written, dropping new ones");
      return;
    }
    const auto now = world_.now();
    const auto [entry, first] = known_.try_emplace(key_of(event));
    EventObject& known = entry->second;
    if (first) {
      known = make_event_object(std::move(event), host_, now);
    } else if (!known.series) {
      known.series = EventSeries{.count = 2, .last_observed = now};
    } else {
      ++known.series->count;
      known.series->last_observed = now;
      return;
    }
    queue_.push_back(known);
    work_.cancel();
  }

  Async<> flush(std::chrono::milliseconds at_most) {
    const auto over = std::make_shared<bool>(false);
    asio::co_spawn(executor_, world_.sleep(at_most),
                   [self = shared_from_this(), over](const std::exception_ptr&) {
                     *over = true;
                     self->idle_.cancel();
                   });
    while (busy() && !stopped_ && !*over) {
      idle_.expires_at(asio::steady_timer::time_point::max());
      error_code ignored;
      co_await idle_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
  }

 private:
  bool busy() const { return writing_ || !queue_.empty(); }

  Async<> write_queued() {
    while (!stopped_) {
      if (queue_.empty()) {
        told_full_ = false;
        work_.expires_at(asio::steady_timer::time_point::max());
        error_code ignored;
        co_await work_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
        continue;
      }
      const EventObject object = std::move(queue_.front());
      queue_.pop_front();
      writing_ = true;
      co_await write_patiently(object);
      writing_ = false;
      if (queue_.empty()) idle_.cancel();
    }
  }

  Async<> write_patiently(const EventObject& object) {
    for (int attempt = 1; !stopped_; ++attempt) {
      const Outcome outcome = co_await write(object);
      if (outcome != Outcome::TryAgain) co_return;
      if (attempt == kAttempts) {
        say(Notice::Severity::Error, "Unable to write event (retry limit exceeded!)");
        co_return;
      }
      const std::chrono::nanoseconds pause = kPause;
      co_await world_.sleep(std::chrono::nanoseconds(static_cast<int64_t>(
          static_cast<double>(pause.count()) * (1 + kJitter * world_.random()))));
    }
  }

  Request request_for(const EventObject& object) const {
    return object.series ? patch_request(object) : create_request(object, content_type_);
  }

  // One attempt. A series is patched; if the event is gone by now, it is created anew.
  Async<Outcome> write(const EventObject& object) {
    const bool series = object.series.has_value();
    const Request first = request_for(object);
    auto response = co_await client_.request(first);
    if (series && response && response->status == 404) {
      const Request anew = create_request(object, content_type_);
      response = co_await client_.request(anew);
    }
    co_return judge(response, series);
  }

  Outcome judge(const base::Result<Response>& response, bool series) {
    if (!response) {
      say(Notice::Severity::Error, "Unable to write event (may retry after sleeping)",
          response.error().text);
      return Outcome::TryAgain;
    }
    if (response->status < 300) return Outcome::Done;
    // Not there when we patched it, there when we created it: somebody was faster; patch again.
    const bool exists = response->status == 409;
    if (exists && series) return Outcome::TryAgain;
    const Notice notice{.severity = exists ? Notice::Severity::Info : Notice::Severity::Error,
                        .verbosity = exists ? 5 : 0,
                        .message = "Server rejected event (will not retry!)",
                        .err = refusal_text(*response)};
    if (!stopped_) tell_(notice);
    return Outcome::Refused;
  }

  // Writes the last count of series that have ended, and now and then the count of all others.
  Async<> tend_series() {
    for (int look = 1; !stopped_; ++look) {
      co_await world_.sleep(kFinish);
      // While one is written, others may come and go.
      std::vector<Key> keys;
      for (const auto& [key, object] : known_)
        keys.push_back(key);
      const bool refresh = look % kLooksPerRefresh == 0;
      for (const Key& key : keys) {
        if (stopped_) co_return;
        co_await tend(key, refresh);
      }
    }
  }

  Async<> tend(const Key& key, bool refresh) {
    const auto found = known_.find(key);
    if (found == known_.end()) co_return;
    const EventObject object = found->second;
    const auto last = object.series ? object.series->last_observed : object.time;
    const bool ended = last < world_.now() - kFinish;
    Outcome outcome = Outcome::Done;
    if (object.series && (ended || refresh)) outcome = co_await write(object);
    const auto now = known_.find(key);
    if (!ended || outcome == Outcome::TryAgain || now == known_.end()) co_return;
    // Unless it went on meanwhile.
    const auto& series = now->second.series;
    const bool same = series.has_value() == object.series.has_value() &&
                      (!series || series->count == object.series->count);
    if (same) known_.erase(now);
  }

  void say(Notice::Severity severity, std::string message, std::string err = "") {
    if (stopped_) return;
    tell_({.severity = severity, .message = std::move(message), .err = std::move(err)});
  }

  asio::any_io_executor executor_;
  Client& client_;
  std::string content_type_;
  std::string host_;
  Tell tell_;
  RecorderWorld world_;
  asio::steady_timer work_;  // cancelled when there is some
  asio::steady_timer idle_;  // cancelled when there is none any more
  std::deque<EventObject> queue_;
  std::map<Key, EventObject> known_;
  bool writing_ = false;
  bool told_full_ = false;
  bool stopped_ = false;
};

class QueueingRecorder : public Recorder {
 public:
  explicit QueueingRecorder(std::shared_ptr<Writer> writer) : writer_(std::move(writer)) {}
  // Asio throws where a timer cannot be cancelled, which happens on Windows only.
  ~QueueingRecorder() override { writer_->stop(); }  // NOLINT(bugprone-exception-escape)

  void record(Event event) override { writer_->record(std::move(event)); }
  Async<> flush(std::chrono::milliseconds at_most) override { return writer_->flush(at_most); }

 private:
  std::shared_ptr<Writer> writer_;
};

}  // namespace

std::unique_ptr<Recorder> make_recorder(const asio::any_io_executor& executor, Client& client,
                                        const std::string& content_type, const std::string& host,
                                        Tell tell, RecorderWorld world) {
  auto writer = std::make_shared<Writer>(executor, client, content_type, host, std::move(tell),
                                         std::move(world));
  writer->start();
  return std::make_unique<QueueingRecorder>(std::move(writer));
}

}  // namespace kube
