// Events about this node and its Services, written to the API (events.k8s.io/v1) for people who run
// `kubectl get events`.
//
// Best effort: up to 12 attempts 10 s apart (plus up to a quarter); an answer that refuses the event
// is not tried again. Repeats of one event (all the same but the note) become its series: the second
// is written at once, further ones are only counted and written every half an hour, and when none
// has come for 6 minutes.
//
// Lives on the loop thread. What it has under way when it is destroyed ends by itself, or with the
// loop; nothing is told any more.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "event/async.h"
#include "kube/client.h"
#include "kube/notice.h"

namespace kube {

struct Event {
  enum class Type { Normal, Warning };
  struct Regarding {
    std::string api_version = "v1";
    std::string kind;
    std::string ns;  // empty: the event lies in "default"
    std::string name;

    auto operator<=>(const Regarding&) const = default;
  };
  Regarding regarding;
  Type type = Type::Normal;
  std::string reason;
  std::string action;
  std::string note;
};

class Recorder {
 public:
  virtual ~Recorder() = default;
  // Queues the event; returns at once. If too many wait already, it is dropped with a notice.
  virtual void record(Event event) = 0;
  // Waits until everything queued has arrived or was given up, at most this long: before an exit.
  virtual event::Async<> flush(std::chrono::milliseconds at_most) = 0;
};

// Time and chance, for tests to replace.
struct RecorderWorld {
  std::function<std::chrono::system_clock::time_point()> now = &std::chrono::system_clock::now;
  std::function<event::Async<>(std::chrono::nanoseconds)> sleep = &event::sleep_for;
  std::function<double()> random;  // at least 0, below 1; empty: std::random_device
};

// `client` outlives the recorder. `content_type` chooses protobuf or JSON. `host` is the name of the
// machine: reportingInstance is kube-proxy-HOST.
std::unique_ptr<Recorder> make_recorder(const boost::asio::any_io_executor& executor,
                                        Client& client, const std::string& content_type,
                                        const std::string& host, Tell tell,
                                        RecorderWorld world = {});

}  // namespace kube
