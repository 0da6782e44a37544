#include "daemon/api_source.h"

#include <sys/utsname.h>

#include <exception>
#include <utility>

#include <boost/asio/co_spawn.hpp>

#include "config/kubeconfig.h"
#include "daemon/timing.h"
#include "http/proxy.h"
#include "http/url.h"
#include "kube/credentials.h"
#include "log/log.h"

namespace proxyd {
namespace {

using base::ErrorCode;
using base::Result;
using source::api::Resource;
using namespace std::chrono_literals;

constexpr auto kAddressesPatience = 30s;
constexpr auto kPodCidrsPatience = 5min;

void tell(const kube::Notice& notice) {
  klog::Fields fields;
  for (const auto& [key, value] : notice.fields)
    fields.emplace_back(std::string_view(key), std::string_view(value));
  if (notice.severity == kube::Notice::Severity::Error)
    return klog::error(notice.message, notice.err, fields);
  if (!notice.err.empty()) fields.emplace(fields.begin(), "err", std::string_view(notice.err));
  if (notice.severity == kube::Notice::Severity::Warning)
    return klog::warning(notice.message, fields);
  klog::verbose(notice.verbosity, notice.message, fields);
}

// "kube-proxy/v1.36.4 (linux/amd64) kubernetes/cpp"
std::string user_agent(const std::string& version) {
  utsname machine{};
  ::uname(&machine);
  std::string arch = machine.machine;
  if (arch == "x86_64") arch = "amd64";
  if (arch == "aarch64") arch = "arm64";
  return "kube-proxy/" + version.substr(0, version.find('-')) + " (linux/" + arch +
         ") kubernetes/cpp";
}

std::string text_of(const std::exception_ptr& thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "ended without a reason";
}

// The machine's own name, whatever the node is called.
std::string host_name() {
  utsname machine{};
  ::uname(&machine);
  return machine.nodename;
}

Result<kube::ClientOptions> client_options(const config::Options& options,
                                           const config::Access& access) {
  const auto& connection = options.config.client_connection;
  if (connection.qps > 0 && connection.burst <= 0) {
    return base::fail(
        ErrorCode::Invalid,
        "burst is required to be greater than 0 when RateLimiter is not set and QPS is "
        "set to greater than 0");
  }
  kube::ClientOptions client;
  client.server = TRY(http::parse_url(access.server));
  if (!access.proxy_url.empty()) {
    client.proxy = TRY(http::parse_url(access.proxy_url));
  } else if (auto proxy =
                 http::proxy_from_environment(client.server, http::process_environment())) {
    client.proxy = std::move(*proxy);
  } else {
    // Parity: it goes without.
    klog::warning("The proxy in the environment makes no sense, ignoring",
                  {{"err", proxy.error().text}});
  }
  client.tls_server_name = access.tls_server_name;
  client.user_agent = user_agent(options.version);
  client.content_type = connection.content_type;
  client.accept = connection.accept_content_types.empty() ? connection.content_type + ", */*"
                                                          : connection.accept_content_types;
  client.qps = connection.qps;
  client.burst = connection.burst;
  return client;
}

}  // namespace

Result<std::unique_ptr<Source>> ApiSource::open(const config::Options& options,
                                                const std::string& node_name, Loop& loop,
                                                Intake& intake, metrics::Metrics& metrics) {
  std::vector<config::AccessNotice> notices;
  auto access = config::load_access(options.config.client_connection.kubeconfig, options.master,
                                    http::process_environment(), notices);
  for (const auto& notice : notices)
    klog::verbose(notice.verbosity, notice.message);
  if (!access) return std::unexpected(access.error());
  auto client = TRY(client_options(options, *access));
  const auto tell_notice = [](const kube::Notice& notice) { tell(notice); };
  metrics.api().connected_to(client.server.authority());
  auto observer = std::make_unique<ApiObserver>(metrics.api());
  auto credentials =
      TRY(kube::Credentials::open(std::move(*access), tell_notice, {}, observer.get()));
  auto made = kube::make_client(loop.io().get_executor(), std::move(client), std::move(credentials),
                                tell_notice, observer.get());
  return std::make_unique<ApiSource>(
      Parts{options, node_name, loop, intake, metrics.api(), std::move(observer), std::move(made)});
}

ApiSource::ApiSource(Parts parts)
    : config_(parts.options.config),
      node_name_(parts.node_name),
      loop_(parts.loop),
      intake_(parts.intake),
      metrics_(parts.metrics),
      observer_(std::move(parts.observer)),
      client_(std::move(parts.client)),
      recorder_(kube::make_recorder(loop_.io().get_executor(), *client_,
                                    config_.client_connection.content_type, host_name(),
                                    [](const kube::Notice& notice) { tell(notice); })) {}

Result<> ApiSource::find_node() {
  watch(Resource::Nodes);
  TRY(loop_.run_until([&] { return is_synced(Resource::Nodes); }, Loop::Clock::time_point::max()));
  TRY(wait_for_addresses());
  if (config_.detect_local_mode == "NodeCIDR") TRY(wait_for_pod_cidrs());
  return {};
}

Result<> ApiSource::wait_for_addresses() {
  const auto found = [&] {
    const auto node = intake_.snapshot()->node;
    return node != nullptr && !node->addresses.empty();
  };
  if (found()) return {};
  klog::info("Waiting up to 30 s for the Node and its addresses", {{"node", node_name_}});
  if (TRY(loop_.run_until(found, Loop::Clock::now() + kAddressesPatience))) return {};
  const bool exists = intake_.snapshot()->node != nullptr;
  klog::error(exists ? "Timed out waiting for node to be assigned IPs"
                     : "Timed out waiting for node to exist",
              "timed out waiting for the condition", {{"node", node_name_}});
  return {};
}

Result<> ApiSource::wait_for_pod_cidrs() {
  const auto found = [&] {
    const auto node = intake_.snapshot()->node;
    return node != nullptr && !node->pod_cidrs.empty();
  };
  if (found()) return {};
  klog::info("Waiting up to 5 minutes for the Node's podCIDRs", {{"node", node_name_}});
  if (TRY(loop_.run_until(found, Loop::Clock::now() + kPodCidrsPatience))) return {};
  const bool exists = intake_.snapshot()->node != nullptr;
  return base::fail(ErrorCode::Timeout,
                    exists ? "timeout waiting for PodCIDR allocation on node \"" + node_name_ + "\""
                           : "timeout waiting for node \"" + node_name_ + "\" to exist");
}

void ApiSource::start() {
  started_ = Loop::Clock::now();
  watch(Resource::Services);
  watch(Resource::EndpointSlices);
  watch(Resource::ServiceCidrs);
}

void ApiSource::record(kube::Event event) { recorder_->record(std::move(event)); }

void ApiSource::flush_events() {
  constexpr auto kPatience = 2s;
  bool done = false;
  boost::asio::co_spawn(loop_.io(), recorder_->flush(kPatience),
                        [&](const std::exception_ptr&) { done = true; });
  // An end of the daemon meanwhile is as good.
  (void)loop_.run_until([&] { return done; }, Loop::Clock::now() + 2 * kPatience);
}

void ApiSource::watch(Resource resource) {
  const source::api::Query query{resource, node_name_};
  const std::string_view plural = query.path().substr(query.path().rfind('/') + 1);
  source::api::Listener listener{
      .changes = [this](std::vector<model::Change> changes) { intake_.take(std::move(changes)); },
      .synced = [this, resource] { synced(resource); },
      .tell = [](const kube::Notice& notice) { tell(notice); },
      .heard = [this,
                plural](std::chrono::nanoseconds decoding) { metrics_.heard(plural, decoding); },
      .lagged = [this, plural](std::chrono::nanoseconds lag) { metrics_.lagged(plural, lag); },
  };
  auto& reflector = reflectors_[static_cast<size_t>(resource)];
  reflector = std::make_unique<source::api::Reflector>(
      query, config::gate_enabled(config_, "WatchListClient"), *client_, std::move(listener));
  // It never returns. What it may throw (no memory, no thread for a lookup) must not leave the node with
  // rules that nobody keeps up to date.
  boost::asio::co_spawn(loop_.io(), reflector->run(), [this](const std::exception_ptr& thrown) {
    loop_.end("watching the API server: " + text_of(thrown));
  });
}

void ApiSource::synced(Resource resource) {
  synced_[static_cast<size_t>(resource)] = true;
  if (resource != Resource::Services && resource != Resource::EndpointSlices) return;
  const bool services = is_synced(Resource::Services);
  const bool slices = is_synced(Resource::EndpointSlices);
  if (services && slices) {
    klog::info("Received the state of the API server",
               {{"services", intake_.snapshot()->services.size()},
                {"milliseconds", milliseconds(Loop::Clock::now() - started_)}});
    return intake_.complete();
  }
  klog::verbose(2, "Not syncing " + config_.mode +
                       " until Services and Endpoints have been received from master");
}

bool ApiSource::is_synced(Resource resource) const {
  return synced_[static_cast<size_t>(resource)];
}

}  // namespace proxyd
