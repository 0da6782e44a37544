#include "kube/client.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include "http/connection.h"
#include "http/proxy_handshake.h"
#include "http/stream.h"
#include "http/watchdog.h"
#include "kube/rate_limit.h"

namespace kube {
namespace {

using base::ErrorCode;
using base::Result;
using Clock = std::chrono::steady_clock;
using event::Async;
using namespace std::chrono_literals;

constexpr int kMaxRetries = 10;
constexpr std::string_view kNoAnswer = "<error>";  // in place of a status
constexpr auto kHeadPatience = 70s;                // the API server itself gives up after 60 s
constexpr auto kBodyPatience = 60s;                // without a byte
// Without a byte on a watch. An API server sends a bookmark every minute, so it hangs, or something in
// between does; where nobody sends bookmarks, a watch is opened again a little more often.
constexpr auto kSilence = 150s;
constexpr auto kRefusalPatience = 10s;  // for the body of an answer that is no watch
constexpr auto kIdleTimeout = 90s;
constexpr size_t kMaxIdle = 25;
constexpr auto kCredentialsPoll = 10s;
constexpr auto kRetryDelay = 1s;
constexpr auto kMaxRetryAfter = std::chrono::seconds(3600);

std::optional<std::chrono::seconds> parse_retry_after(const std::string& text) {
  uint32_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return std::min(std::chrono::seconds(seconds), kMaxRetryAfter);
}

// "Get", as Go's programs begin the description of what failed.
std::string verb_of(const std::string& method) {
  std::string verb = method;
  std::transform(verb.begin() + 1, verb.end(), verb.begin() + 1,
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return verb;
}

// The text in `299 - "unknown field ..."`.
std::string warning_text(const std::string& header) {
  const size_t first = header.find('"');
  const size_t last = header.rfind('"');
  if (!header.starts_with("299 ") || first == last) return {};
  std::string text = header.substr(first + 1, last - first - 1);
  std::erase(text, '\\');
  return text;
}

class Registered;

// Connections that are open, to be ended together when credentials change.
using Open = std::set<Registered*>;

class Registered {
 public:
  Registered(std::unique_ptr<http::Connection> connection, std::shared_ptr<Open> open,
             uint64_t generation)
      : connection_(std::move(connection)), open_(std::move(open)), generation_(generation) {
    open_->insert(this);
  }
  ~Registered() { open_->erase(this); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  http::Connection& operator*() const { return *connection_; }
  http::Connection* operator->() const { return connection_.get(); }
  uint64_t generation() const { return generation_; }

 private:
  std::unique_ptr<http::Connection> connection_;
  std::shared_ptr<Open> open_;
  uint64_t generation_;
};
using ConnectionPtr = std::unique_ptr<Registered>;

// An answer whose head has arrived.
struct Answer {
  ConnectionPtr connection;
  http::Head head;
};

class HttpStream final : public Stream {
 public:
  HttpStream(Answer answer, std::chrono::seconds patience)
      : answer_(std::move(answer)), patience_(patience) {}

  int status() const override { return answer_.head.status; }
  const std::string& content_type() const override { return answer_.head.content_type; }
  Async<Result<std::string_view>> read() override {
    const std::chrono::seconds patience = status() == 200 ? patience_ : kRefusalPatience;
    auto bytes = co_await (*answer_.connection)->read(patience);
    co_return std::move(bytes);
  }

 private:
  Answer answer_;
  std::chrono::seconds patience_;
};

class HttpClient final : public Client {
 public:
  HttpClient(boost::asio::any_io_executor executor, ClientOptions options,
             std::unique_ptr<Credentials> credentials, Tell tell, Observer& observer)
      : executor_(std::move(executor)),
        options_(std::move(options)),
        credentials_(std::move(credentials)),
        tell_(std::move(tell)),
        observer_(observer),
        limit_(options_.qps == 0 ? 5 : options_.qps, options_.qps == 0 ? 10 : options_.burst,
               Clock::now()),
        poll_(executor_, [this] { look_at_credentials(); }),
        generation_at_last_look_(credentials_->generation()) {
    poll_.arm(kCredentialsPoll);
  }

  Async<Result<Response>> request(const Request& request) override {
    const auto start = Clock::now();  // Parity: what the rate limit takes counts
    co_await take_token(request);
    auto response = co_await send_and_read(request);
    Observer::Finished finished{
        .method = request.method, .took = Clock::now() - start, .sent_bytes = request.body.size()};
    if (response) finished.received_bytes = response->body.size();
    observer_.finished(finished);
    co_return std::move(response);
  }

  Async<Result<std::unique_ptr<Stream>>> stream(const Request& request,
                                                std::chrono::seconds patience) override {
    // Some proxies keep the head back until there is a body.
    const auto silence = std::min<std::chrono::seconds>(patience, kSilence);
    auto answer = co_await send(request, std::max<std::chrono::seconds>(silence, kHeadPatience));
    if (!answer) co_return std::unexpected(answer.error());
    co_return std::make_unique<HttpStream>(std::move(*answer), silence);
  }

 private:
  std::string url_of(const Request& request) const {
    return options_.server.str() + request.path + (request.query.empty() ? "" : "?") +
           request.query;
  }
  std::string describe(const Request& request) const {
    return verb_of(request.method) + " \"" + url_of(request) + "\"";
  }

  Async<Result<Response>> send_and_read(const Request& request) {
    auto answer = co_await send(request, kHeadPatience);
    if (!answer) co_return std::unexpected(answer.error());
    Response response;
    response.status = answer->head.status;
    response.content_type = answer->head.content_type;
    while (true) {
      const auto bytes = co_await (*answer->connection)->read(kBodyPatience);
      if (!bytes) co_return std::unexpected(bytes.error().in(describe(request)));
      if (bytes->empty()) break;
      if (response.body.size() + bytes->size() > kMaxBodyBytes)
        co_return base::fail(ErrorCode::Invalid, describe(request) + ": the answer is too large");
      response.body += *bytes;
    }
    keep(std::move(answer->connection));
    co_return response;
  }

  void tell_attempt(const Request& request, const Result<Answer>& answer, int attempt) {
    const std::string code = answer ? std::to_string(answer->head.status) : std::string(kNoAnswer);
    observer_.attempted(request.method, code, attempt > 0);
  }

  // Tries again what the server asked to be tried again.
  Async<Result<Answer>> send(const Request& request, std::chrono::seconds head_patience) {
    for (int attempt = 0;; ++attempt) {
      auto answer = co_await send_once(request, head_patience);
      tell_attempt(request, answer, attempt);
      if (!answer) {
        const bool again = request.method == "GET" && answer.error().code == ErrorCode::Lost;
        if (!again || attempt == kMaxRetries)
          co_return std::unexpected(answer.error().in(describe(request)));
        tell_({.severity = Notice::Severity::Info,
               .verbosity = attempt == 0 ? 0 : 2,
               .message = "Lost the connection to the API server before it answered, trying again",
               .err = answer.error().in(describe(request)).text});
        co_await event::sleep_for(kRetryDelay);
        continue;
      }
      const int status = answer->head.status;
      const auto retry_after = parse_retry_after(answer->head.retry_after);
      const bool again = retry_after && (status == 429 || status / 100 == 5);
      if (!again || attempt == kMaxRetries) co_return std::move(answer);
      tell_({.severity = Notice::Severity::Info,
             .verbosity = 2,
             .message = "The API server asks for patience",
             .fields = {{"url", url_of(request)},
                        {"status", std::to_string(status)},
                        {"retryAfter", std::to_string(retry_after->count()) + "s"}}});
      answer->connection.reset();
      co_await event::sleep_for(*retry_after);
      co_await take_token(request);
    }
  }

  Async<Result<Answer>> send_once(const Request& request, std::chrono::seconds head_patience) {
    const auto credentials = co_await credentials_->headers();
    if (!credentials) co_return std::unexpected(credentials.error());
    const std::string bytes = compose(request, *credentials);
    const auto start = Clock::now();
    while (true) {
      const bool reused = !idle_.empty() && prune_idle();
      auto connection = co_await connection_for(reused);
      if (!connection) co_return std::unexpected(connection.error());
      auto head = co_await (**connection)->exchange(bytes, head_patience);
      // The server may have closed an idle connection just when we sent the request.
      const bool stale =
          !head && head.error().code == ErrorCode::Lost && reused && !(**connection)->answered();
      if (stale) continue;
      if (!head) co_return std::unexpected(head.error());
      told(request, *head, Clock::now() - start);
      if (head->status == 401) credentials_->refused(*credentials);
      co_return Answer{std::move(*connection), std::move(*head)};
    }
  }

  void told(const Request& request, const http::Head& head, std::chrono::nanoseconds took) {
    for (const auto& header : head.warnings) {
      if (auto text = warning_text(header); !text.empty())
        tell_({.severity = Notice::Severity::Warning, .message = std::move(text), .err = {}});
    }
    tell_({.severity = Notice::Severity::Info,
           .verbosity = 6,
           .message = "Response",
           .fields = {{"verb", request.method},
                      {"url", url_of(request)},
                      {"status", std::to_string(head.status)},
                      {"milliseconds", std::to_string(took / 1ms)}}});
  }

  // Whether a kept connection can be used; those that waited too long are closed.
  bool prune_idle() {
    const auto now = Clock::now();
    const uint64_t generation = credentials_->generation();
    std::erase_if(idle_, [&](const Idle& idle) {
      return now - idle.since > kIdleTimeout || idle.connection->generation() != generation;
    });
    return !idle_.empty();
  }

  Async<Result<ConnectionPtr>> connection_for(bool reuse) {
    if (reuse) {
      ConnectionPtr connection = std::move(idle_.back().connection);
      idle_.pop_back();
      co_return std::move(connection);
    }
    http::Target target{options_.server, options_.proxy, options_.tls_server_name, {}, {}};
    target.resolved = [&observer = observer_](const std::string& host, auto took) {
      observer.resolved(host, took);
    };
    // Credentials may change while we connect; such a connection would be missed when the others are ended.
    constexpr int kMaxDials = 3;
    for (int dials = 1;; ++dials) {
      if (options_.server.tls()) {
        auto tls = co_await credentials_->tls();
        if (!tls) co_return std::unexpected(tls.error());
        target.tls = std::move(*tls);
      }
      const uint64_t generation = credentials_->generation();
      auto stream = co_await http::dial(target);
      if (!stream) co_return std::unexpected(stream.error());
      if (credentials_->generation() != generation && dials < kMaxDials) continue;
      auto connection = std::make_unique<http::Connection>(executor_, std::move(*stream));
      co_return std::make_unique<Registered>(std::move(connection), open_, generation);
    }
  }

  void keep(ConnectionPtr connection) {
    if (!(*connection)->reusable() || idle_.size() >= kMaxIdle) return;
    idle_.push_back({std::move(connection), Clock::now()});
  }

  std::string compose(const Request& request, const Headers& credentials) const {
    const bool absolute = http::in_absolute_form(options_.proxy, options_.server);
    std::string out = request.method + " ";
    out += absolute ? options_.server.str() : options_.server.path;
    out += request.path;
    if (!request.query.empty()) out += "?" + request.query;
    out += " HTTP/1.1\r\n";
    const auto header = [&](std::string_view name, std::string_view value) {
      ((out += name) += ": ") += value;
      out += "\r\n";
    };
    header("Host", options_.server.authority());
    header("User-Agent", options_.user_agent);
    header("Accept", options_.accept);
    for (const auto& [name, value] : credentials)
      header(name, value);
    if (absolute) {
      if (const auto basic = http::proxy_authorization(*options_.proxy); !basic.empty())
        header("Proxy-Authorization", basic);
    }
    if (!request.body.empty()) {
      header("Content-Type",
             request.content_type.empty() ? options_.content_type : request.content_type);
      header("Content-Length", std::to_string(request.body.size()));
    }
    return out + "\r\n" + request.body;
  }

  Async<> take_token(const Request& request) {
    const auto wait = limit_.reserve(Clock::now());
    observer_.throttled(request.method, wait);
    if (wait <= 0ns) co_return;
    co_await event::sleep_for(wait);
    if (wait < 50ms) co_return;
    const bool loud = wait > 1s && Clock::now() - last_throttle_notice_ > 10s;
    if (loud) last_throttle_notice_ = Clock::now();
    tell_({.severity = Notice::Severity::Info,
           .verbosity = loud ? 0 : 3,
           .message = "Waited before sending request",
           .fields = {{"delay", std::to_string(wait / 1ms) + "ms"},
                      {"reason", "client-side throttling, not priority and fairness"},
                      {"verb", request.method},
                      {"URL", url_of(request)}}});
  }

  void look_at_credentials() {
    const uint64_t generation = credentials_->generation();
    if (generation != generation_at_last_look_) {
      if (!open_->empty() || !idle_.empty()) {
        tell_({.severity = Notice::Severity::Info,
               .verbosity = 1,
               .message =
                   "Certificate rotation detected, shutting down client connections to start "
                   "using new credentials"});
      }
      for (Registered* connection : *open_) {
        if (connection->generation() != generation) (*connection)->close();
      }
      generation_at_last_look_ = generation;
    }
    prune_idle();
    poll_.arm(kCredentialsPoll);
  }

  struct Idle {
    ConnectionPtr connection;
    Clock::time_point since;
  };

  boost::asio::any_io_executor executor_;
  ClientOptions options_;
  std::unique_ptr<Credentials> credentials_;
  Tell tell_;
  Observer& observer_;
  RateLimit limit_;
  http::Watchdog poll_;
  std::shared_ptr<Open> open_ = std::make_shared<Open>();
  std::vector<Idle> idle_;
  uint64_t generation_at_last_look_;
  Clock::time_point last_throttle_notice_;
};

}  // namespace

std::unique_ptr<Client> make_client(boost::asio::any_io_executor executor, ClientOptions options,
                                    std::unique_ptr<Credentials> credentials, Tell tell,
                                    Observer* observer) {
  return std::make_unique<HttpClient>(std::move(executor), std::move(options),
                                      std::move(credentials), std::move(tell),
                                      observer_or_none(observer));
}

}  // namespace kube
