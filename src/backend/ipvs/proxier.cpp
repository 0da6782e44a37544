#include "backend/ipvs/proxier.h"

#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "backend/ipvs/node_addresses.h"
#include "backend/stopwatch.h"

namespace ipvs {
namespace {

using backend::timed;
using base::ErrorCode;
using base::Result;
using kernel::ServerKey;
using Clock = std::chrono::steady_clock;
using Contents = std::vector<std::pair<model::ServiceKey, ServiceContents>>;

// Failures of one kind, in a log: the first ones say enough.
constexpr size_t kMaxComplaints = 10;

plan::Context context_of(const Settings& settings, const model::Snapshot& snapshot) {
  plan::Context context = settings.context;
  context.zone = snapshot.node != nullptr ? snapshot.node->zone : std::string();
  return context;
}

// "rr, wrr, lc"
std::string known_schedulers(kernel::Ipvs& ipvs) {
  std::string out;
  for (const auto name : kernel::kSchedulers) {
    if (!ipvs.has_scheduler(std::string(name)).value_or(false)) continue;
    if (!out.empty()) out += ", ";
    out += name;
  }
  return out.empty() ? "none" : out;
}

// Trying it out would be a write.
Result<bool> is_in_use(kernel::Ipvs& ipvs, const std::string& scheduler) {
  for (const auto family : net::kFamilies) {
    const auto servers = TRY(ipvs.servers(family));
    if (std::ranges::count(servers, scheduler, &kernel::VirtualServer::scheduler) > 0) return true;
  }
  return false;
}

Result<> check_scheduler(kernel::Ipvs& ipvs, const std::string& scheduler) {
  if (TRY(is_in_use(ipvs, scheduler)) || TRY(ipvs.has_scheduler(scheduler))) return {};
  return base::fail(ErrorCode::Unsupported, "the kernel has no scheduler \"" + scheduler +
                                                "\" (module ip_vs_" + scheduler +
                                                "); it has: " + known_schedulers(ipvs));
}

// Hears of addresses: those that the node gets or loses decide about node ports, and ours should stay.
class AddressWatch : public backend::Watch {
 public:
  AddressWatch(kernel::AddressNews news, std::shared_ptr<Expected> expected)
      : news_(std::move(news)), expected_(std::move(expected)) {}

  int fd() const override { return news_.fd(); }

  backend::Disturbance drain() override {
    const auto all = news_.drain();
    if (!all) {
      expected_->clear();
      return backend::Disturbance::Maybe;
    }
    const unsigned ours = ::if_nametoindex(kDevice);
    bool matters = false;
    for (const auto& one : *all) {
      if (!counts(one.address.ip)) continue;
      // What our device gets, it gets from us, and what it loses should have been taken off by us.
      const bool expected = one.gone ? expected_->take(one.address.ip) : one.address.device == ours;
      matters = matters || !expected;
    }
    return matters ? backend::Disturbance::Maybe : backend::Disturbance::None;
  }

 private:
  kernel::AddressNews news_;
  std::shared_ptr<Expected> expected_;
};

}  // namespace

// Changes to servers, and what each is about.
class ServerBatch {
 public:
  // What they name must outlive the batch.
  void add(const kernel::VirtualServer& server) {
    changes_.add(server);
    about_.push_back({.server = &server, .key = &server.key});
  }
  void update(const kernel::VirtualServer& server) {
    changes_.update(server);
    about_.push_back({.server = &server, .key = &server.key});
  }
  void remove(const ServerKey& server) {
    changes_.remove(server);
    about_.push_back({.key = &server});
  }
  void add(const RealChange& change) {
    changes_.add(change.server, change.real);
    about_.push_back({.key = &change.server, .real = &change});
  }
  void update(const RealChange& change) {
    changes_.update(change.server, change.real);
    about_.push_back({.key = &change.server, .real = &change});
  }
  void remove(const RealChange& change) {
    changes_.remove(change.server, change.real);
    about_.push_back({.key = &change.server, .real = &change});
  }
  void silence(const RealChange& change) {
    kernel::RealServer silent = change.real;
    silent.weight = 0;
    changes_.update(change.server, silent);
    about_.push_back({.key = &change.server, .real = &change});
  }
  // The server that was added to that batch, and is there already.
  void update_instead(const ServerBatch& batch, size_t place) {
    const About& about = batch.about_[place];
    about.real != nullptr ? update(*about.real) : update(*about.server);
  }

  size_t size() const { return about_.size(); }
  kernel::Ipvs::Changes take() { return std::move(changes_); }
  // "real server 10.96.0.1:80/TCP/10.244.1.2:8080"
  std::string name(size_t place) const {
    const About& about = about_[place];
    if (about.real == nullptr) return "virtual server " + about.key->str();
    std::string out = "real server " + about.key->str() + "/";
    net::append_endpoint(out, about.real->real.ip, about.real->real.port);
    return out;
  }

 private:
  struct About {
    const kernel::VirtualServer* server =
        nullptr;  // that is written; null: it is removed, or this is about a real one
    const ServerKey* key = nullptr;
    const RealChange* real = nullptr;
  };
  kernel::Ipvs::Changes changes_;
  std::vector<About> about_;
};

bool Settings::is_excluded(const net::IpAddr& ip) const {
  return std::ranges::any_of(exclude_cidrs,
                             [&](const net::Cidr& cidr) { return cidr.contains(ip); });
}

Result<> check_kernel(const std::string& scheduler, const std::vector<net::Family>& families) {
  auto ipvs = TRY_CONTEXT(kernel::Ipvs::open(), "ipvs not supported by the kernel");
  auto ipset = TRY_CONTEXT(kernel::Ipset::open(), "error getting ipset version, error");
  TRY(check_scheduler(ipvs, scheduler));
  kernel::Ipvs::load_awkward_schedulers();
  for (const auto family : families) {
    for (const auto set : all_sets())
      TRY(ipset.check(type_of(set), family));
  }
  return {};
}

Ledger ledger_of(const Settings& settings, const model::Snapshot& snapshot,
                 const NodeAddresses& node) {
  Contents all;
  for (const auto& plan : plan::compile_all(snapshot.services, context_of(settings, snapshot))) {
    const std::string& scheduler =
        plan.scheduler.empty() ? settings.options.scheduler : plan.scheduler;
    all.emplace_back(plan.key, contents_of(plan, scheduler, node));
  }
  Ledger ledger;
  ledger.update(std::move(all));
  return ledger;
}

Filled filled_sets(const Ledger& ledger) {
  Filled filled;
  for (const auto set : all_sets())
    filled[static_cast<size_t>(set)] = ledger.has_entries(set);
  return filled;
}

void Expected::add(const std::vector<net::IpAddr>& ips) {
  const std::lock_guard lock(mutex_);
  ips_.insert(ips.begin(), ips.end());
}

bool Expected::take(const net::IpAddr& ip) {
  const std::lock_guard lock(mutex_);
  const auto found = ips_.find(ip);
  if (found == ips_.end()) return false;
  ips_.erase(found);
  return true;
}

void Expected::clear() {
  const std::lock_guard lock(mutex_);
  ips_.clear();
}

Result<std::unique_ptr<Proxier>> Proxier::open(Settings settings) {
  const net::Family family = settings.options.family;
  Parts parts{.ipvs = TRY(kernel::Ipvs::open()),
              .ipset = TRY(kernel::Ipset::open()),
              .addresses = TRY(kernel::DeviceAddresses::open(family))};
  settings.options.random_fully = iptables::Programs(family).random_fully();
  return std::unique_ptr<Proxier>(new Proxier(std::move(settings), std::move(parts)));
}

Proxier::Proxier(Settings settings, Parts parts)
    : settings_(std::move(settings)),
      ipvs_(std::move(parts.ipvs)),
      ipset_(std::move(parts.ipset)),
      addresses_(std::move(parts.addresses)),
      programs_(settings_.options.family) {}

// Deciding what is to be

bool Proxier::has_scheduler(const std::string& name) {
  if (const auto known = schedulers_.find(name); known != schedulers_.end()) return known->second;
  return schedulers_[name] = ipvs_.has_scheduler(name).value_or(false);
}

const std::string& Proxier::scheduler_for(const plan::ServicePlan& plan,
                                          backend::SyncReport& report) {
  for (const auto& problem : plan.problems)
    report.problems.push_back({plan.key, problem});
  if (plan.scheduler.empty() || has_scheduler(plan.scheduler)) {
    return plan.scheduler.empty() ? settings_.options.scheduler : plan.scheduler;
  }
  report.problems.push_back(
      {plan.key, "the kernel of node " + settings_.context.node_name + " has no scheduler \"" +
                     plan.scheduler + "\" (module ip_vs_" + plan.scheduler +
                     " is not loaded), using \"" + settings_.options.scheduler + "\""});
  return settings_.options.scheduler;
}

Contents Proxier::contents_of_all(const std::vector<plan::ServicePlan>& plans,
                                  backend::SyncReport& report) {
  Contents all;
  all.reserve(plans.size());
  for (const auto& plan : plans) {
    const std::string& scheduler = scheduler_for(plan, report);
    all.emplace_back(plan.key, contents_of(plan, scheduler, node_));
  }
  return all;
}

Result<Difference> Proxier::full_difference(const backend::SyncRequest& request, bool known,
                                            backend::SyncReport& report) {
  const auto observed = TRY(timed(report.observe, [&] { return look_around(); }));
  if (known) report.drift = count_drift(observed);
  // A module may have come.
  std::erase_if(schedulers_, [](const auto& scheduler) { return !scheduler.second; });
  const auto plans = timed(report.plan, [&] {
    return plan::compile_all(request.snapshot->services, context_of(settings_, *request.snapshot));
  });
  return timed(report.render, [&] {
    ledger_ = Ledger();
    ledger_.update(contents_of_all(plans, report));
    return ledger_.compare(observed,
                           [&](const net::IpAddr& ip) { return settings_.is_excluded(ip); });
  });
}

Difference Proxier::partial_difference(const backend::SyncRequest& request,
                                       backend::SyncReport& report) {
  const auto plans = timed(report.plan, [&] {
    return plan::compile_some(request.snapshot->services, request.dirty.services,
                              context_of(settings_, *request.snapshot));
  });
  return timed(report.render, [&] { return ledger_.update(contents_of_all(plans, report)); });
}

Result<backend::SyncReport> Proxier::sync(const backend::SyncRequest& request) {
  backend::SyncReport report;
  const uint64_t sent_before = sent();
  const bool known = std::exchange(known_, false);
  report.full = request.full || !known || request.dirty.node;
  if (report.full) rules_missing_ = true;
  const Difference difference = report.full ? TRY(full_difference(request, known, report))
                                            : partial_difference(request, report);
  trouble_ = false;
  TRY(timed(report.commit, [&] { return write(difference, report); }));
  known_ = !trouble_;
  report.endpoints = ledger_.endpoints();
  report.messages = sent() - sent_before;
  return report;
}

// Reading the kernel

Result<Observed> Proxier::look_around() {
  device_ = TRY(kernel::ensure_link(kDevice, kDeviceKind));
  const auto all = TRY(addresses_.list());
  node_ = node_addresses(all, device_, settings_.node_port_cidrs);
  return observe(device_, all);
}

Result<Observed> Proxier::observe(unsigned device, const std::vector<kernel::DeviceAddress>& all) {
  Observed observed;
  for (auto& server : TRY(ipvs_.servers(family()))) {
    auto reals = ipvs_.real_servers(server.key);
    if (!reals && reals.error().code == ErrorCode::NotFound) continue;  // gone meanwhile
    if (!reals) return std::unexpected(reals.error());
    auto& added = observed.servers.emplace_back(std::move(server));
    for (const auto& state : *reals)
      added.reals.push_back(state.server);
  }
  for (const auto set : all_sets()) {
    auto members = ipset_.members(set_name(set, family()), type_of(set));
    if (!members && members.error().code == ErrorCode::NotFound) continue;
    if (!members) return std::unexpected(members.error());
    observed.sets[static_cast<size_t>(set)] = std::move(*members);
  }
  observed.bound = bound_addresses(all, device);
  return observed;
}

Result<Observed> Proxier::observe() {
  return observe(::if_nametoindex(kDevice), TRY(addresses_.list()));
}

Result<iptables::Observed> Proxier::observe_rules() const {
  iptables::Observed observed;
  for (const auto table : {iptables::Table::Nat, iptables::Table::Filter})
    observed[table] = TRY(programs_.observe(table));
  return observed;
}

size_t Proxier::count_drift(const Observed& observed) const {
  const auto difference =
      ledger_.compare(observed, [&](const net::IpAddr& ip) { return settings_.is_excluded(ip); });
  const auto draining = std::ranges::count_if(
      difference.reals_removed,
      [&](const RealChange& change) { return drain_.contains(change.server, change.real); });
  return difference.size() - static_cast<size_t>(draining);
}

bool Proxier::has_drifted(const Observed& observed,
                          const std::vector<kernel::DeviceAddress>& addresses) {
  if (count_drift(observed) == 0) return false;
  // The kernel's list of servers may lack one while others change some, in whatever namespace: look twice.
  const auto again = observe(device_, addresses);
  return again && count_drift(*again) > 0;
}

bool Proxier::flushed(bool /*thorough*/) {
  if (!known_) return trouble_;
  const unsigned device = ::if_nametoindex(kDevice);
  const auto all = addresses_.list();
  if (device != device_ || !all) return device != device_;
  if (node_addresses(*all, device, settings_.node_port_cidrs) != node_) return true;
  const auto observed = observe(device, *all);
  const auto rules = observe_rules();
  if (!observed || !rules) return false;
  return has_drifted(*observed, *all) || !rules_missing(rules_, *rules).empty();
}

Result<std::vector<backend::PortConnections>> Proxier::count_connections(
    const model::Snapshot& /*snapshot*/) {
  return base::fail(ErrorCode::Unsupported, "connections are counted in mode iptables only");
}

Result<std::unique_ptr<backend::Watch>> Proxier::watch() {
  auto news = TRY(kernel::AddressNews::open(family()));
  expected_ = std::make_shared<Expected>();
  return std::make_unique<AddressWatch>(std::move(news), expected_);
}

// Writing to the kernel

void Proxier::complain(Complaints& complaints, std::string text) {
  trouble_ = true;
  if (complaints.size() < kMaxComplaints) complaints.push_back(std::move(text));
}

Result<> Proxier::write(const Difference& difference, backend::SyncReport& report) {
  TRY(make_sets(difference));
  TRY(change_entries(difference.entries_added, {}, report));
  const auto rules = write_rules(report);
  TRY(put_servers(difference, report));
  TRY(change_addresses(difference.bound, {}, report));
  // Parity: without its rules nothing is removed, and everything is tried again.
  if (!rules) return rules;
  TRY(change_addresses({}, difference.unbound, report));
  TRY(drop_servers(difference, report));
  return change_entries({}, difference.entries_removed, report);
}

Result<> Proxier::make_sets(const Difference& difference) {
  for (const auto set : difference.sets_missing)
    TRY(ipset_.create(set_name(set, family()), type_of(set), family()));
  return {};
}

Result<> Proxier::write_rules(backend::SyncReport& report) {
  const Filled filled = filled_sets(ledger_);
  auto guards = ledger_.guards();
  if (!rules_missing_ && filled == filled_ && guards == guards_) return {};
  auto wanted = chains(settings_.options, filled, guards);
  auto transaction = rules_missing_ ? rules_missing(wanted, TRY(observe_rules()))
                                    : iptables::chains_changed(rules_, wanted);
  report.chains = transaction.chains;
  report.rules = transaction.rule_count();
  report.bytes += transaction.bytes();
  rules_missing_ = true;
  TRY(programs_.restore(std::move(transaction)));
  rules_missing_ = false;
  rules_ = std::move(wanted);
  filled_ = filled;
  guards_ = std::move(guards);
  return {};
}

Result<> Proxier::change_entries(const std::vector<Entry>& added, const std::vector<Entry>& removed,
                                 backend::SyncReport& report) {
  kernel::Ipset::Changes changes;
  for (const auto& entry : removed)
    changes.remove(set_name(entry.set, family()), type_of(entry.set), entry.entry);
  for (const auto& entry : added)
    changes.add(set_name(entry.set, family()), type_of(entry.set), entry.entry);
  report.elements += changes.size();
  if (changes.empty()) return {};
  for (const auto& failure : TRY(ipset_.apply(std::move(changes)))) {
    const bool removal = failure.place < removed.size();
    const Entry& entry = removal ? removed[failure.place] : added[failure.place - removed.size()];
    complain(report.warnings,
             std::string("could not ") + (removal ? "remove" : "add") + " an entry of ipset " +
                 set_name(entry.set, family()) + " (" + entry.entry.ip.str() + " port " +
                 std::to_string(entry.entry.port) + "): " + kernel::Ipset::explain(failure.number));
  }
  return {};
}

Result<> Proxier::apply(ServerBatch batch, Deed deed, Complaints& complaints) {
  if (batch.size() == 0) return {};
  ServerBatch again;
  for (const auto& failure : TRY(ipvs_.apply(batch.take()))) {
    const bool absent = failure.number == ENOENT || failure.number == ESRCH;
    if (deed == Deed::Remove && absent) continue;
    // While others change servers, in whatever namespace, the kernel's list of them may lack one.
    if (deed == Deed::Write && failure.number == EEXIST) {
      again.update_instead(batch, failure.place);
      continue;
    }
    const std::string context = std::string("could not ") +
                                (deed == Deed::Remove ? "remove " : "write ") +
                                batch.name(failure.place);
    complain(complaints, base::errno_error(context, failure.number).text);
  }
  return apply(std::move(again), Deed::Update, complaints);
}

Result<> Proxier::put_servers(const Difference& difference, backend::SyncReport& report) {
  ServerBatch batch;
  for (const auto& server : difference.servers_added)
    batch.add(server);
  for (const auto& server : difference.servers_updated)
    batch.update(server);
  for (const auto& change : difference.reals_added) {
    // One that has come back while it was to go is there still, with its connections.
    const bool draining = drain_.take(change.server, change.real);
    draining ? batch.update(change) : batch.add(change);
  }
  for (const auto& change : difference.reals_updated) {
    drain_.take(change.server, change.real);
    batch.update(change);
  }
  report.servers += batch.size();
  return apply(std::move(batch), Deed::Write, report.warnings);
}

Result<> Proxier::drop_servers(const Difference& difference, backend::SyncReport& report) {
  ServerBatch batch;
  for (const auto& server : difference.servers_removed) {
    batch.remove(server);
    drain_.forget(server);
  }
  report.servers += batch.size();
  TRY(apply(std::move(batch), Deed::Remove, report.warnings));
  return retire(difference.reals_removed, report);
}

Result<> Proxier::retire(const std::vector<RealChange>& reals, backend::SyncReport& report) {
  ServerBatch batch;
  std::set<ServerKey> to_settle;
  for (const auto& change : reals) {
    if (drain_.contains(change.server, change.real)) continue;
    if (!is_drained(change.server.protocol)) {
      batch.remove(change);
      continue;
    }
    // Without weight before it is asked whether it has connections: it gets none in between.
    if (change.real.weight != 0) batch.silence(change);
    drain_.add(change.server, change.real, Clock::now());
    to_settle.insert(change.server);
  }
  report.servers += batch.size();
  TRY(apply(std::move(batch), Deed::Remove, report.warnings));
  report.servers += TRY(settle({to_settle.begin(), to_settle.end()}, report.warnings));
  return {};
}

Result<size_t> Proxier::settle(const std::vector<ServerKey>& servers, Complaints& complaints) {
  std::vector<RealChange> idle;
  for (const auto& server : servers) {
    const auto states = ipvs_.real_servers(server);
    if (!states && states.error().code == ErrorCode::NotFound) {
      drain_.forget(server);
      continue;
    }
    if (!states) return std::unexpected(states.error());
    for (const auto& real : drain_.settle(server, *states))
      idle.push_back({server, real});
  }
  ServerBatch batch;
  for (const auto& change : idle)
    batch.remove(change);
  TRY(apply(std::move(batch), Deed::Remove, complaints));
  return idle.size();
}

Result<> Proxier::change_addresses(const std::vector<net::IpAddr>& bound,
                                   const std::vector<net::IpAddr>& unbound,
                                   backend::SyncReport& report) {
  if (bound.empty() && unbound.empty()) return {};
  if (expected_ != nullptr) expected_->add(unbound);
  report.addresses += bound.size() + unbound.size();
  for (const auto& failure : TRY(addresses_.change(device_, bound, unbound))) {
    const std::string context = "could not change address " + failure.ip.str() + " of " + kDevice;
    complain(report.warnings, base::errno_error(context, failure.number).text);
  }
  return {};
}

Proxier::Time Proxier::tend(Time now) {
  if (now < drain_.next()) return drain_.next();
  Complaints complaints;
  const auto settled = settle(drain_.begin_look(now), complaints);
  // Not worth a failure: flushed() sees to it that everything is compared.
  if (!settled || !complaints.empty()) {
    known_ = false;
    trouble_ = true;
  }
  return drain_.next();
}

}  // namespace ipvs
