#include "kernel/conntrack.h"

#include <linux/netlink.h>

#include <optional>

#include "kernel/conntrack_message.h"

namespace kernel {
namespace {

using base::ErrorCode;
using base::Result;
using net::Family;
using net::Protocol;
using netlink::Conversation;

constexpr int kAttempts = 5;
const std::string kListing = "list tracked connections";
const std::string kDeleting = "delete tracked connection";

using Each = std::function<void(const TrackedFlow&)>;

// Each dump has a socket of its own: one that broke off may leave answers behind.
Result<> dump(Family family, Protocol protocol, bool filtered, const Each& each) {
  auto table = TRY(Conversation::open(NETLINK_NETFILTER));
  const auto request = dump_request(family, filtered ? std::optional(protocol) : std::nullopt);
  // Whatever was asked for, a kernel that knows no filter shows everything.
  return table.ask(request, kListing, [&](const nlmsghdr& message) {
    const auto tracked = decode_flow(message);
    if (!tracked || tracked->flow.protocol != protocol) return;
    if (tracked->flow.original.source.family() == family) each(*tracked);
  });
}

// A kernel that refuses the filter does so before it shows an entry.
Result<> dump(Family family, Protocol protocol, const Each& each) {
  auto filtered = dump(family, protocol, true, each);
  const bool refused = !filtered && (filtered.error().code == ErrorCode::System ||
                                     filtered.error().code == ErrorCode::Unsupported);
  if (!refused) return filtered;
  return dump(family, protocol, false, each);
}

Result<Sweep> walk(Family family, Protocol protocol, const Each& each) {
  Sweep sweep;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    sweep.seen = 0;
    const auto done = dump(family, protocol, [&](const TrackedFlow& tracked) {
      ++sweep.seen;
      each(tracked);
    });
    if (!done && done.error().code != ErrorCode::Busy) return std::unexpected(done.error());
    sweep.interrupted = !done;
    if (done) break;
  }
  return sweep;
}

// True: deleted. False: it was gone already.
Result<bool> erase(Conversation& conversation, const TrackedFlow& tracked) {
  const auto request = delete_request(tracked);
  auto done = conversation.ask(request, kDeleting);
  for (int attempt = 1; !done && done.error().code == ErrorCode::Busy && attempt < kAttempts;
       ++attempt) {
    done = conversation.ask(request, kDeleting);
  }
  if (done) return true;
  if (done.error().code == ErrorCode::NotFound) return false;
  return std::unexpected(done.error());
}

}  // namespace

Result<Sweep> sweep_flows(Family family, Protocol protocol,
                          const std::function<bool(const net::Flow&)>& stale) {
  // On a socket of its own, while the dump goes on: nothing has to be remembered, and the kernel's walk through the
  // table does not lose its place when an entry goes.
  auto eraser = TRY(Conversation::open(NETLINK_NETFILTER));
  size_t deleted = 0;
  std::optional<base::Error> failure{};
  auto sweep = TRY(walk(family, protocol, [&](const TrackedFlow& tracked) {
    if (!stale(tracked.flow)) return;
    const auto erased = erase(eraser, tracked);
    if (erased)
      deleted += *erased;
    else if (!failure)
      failure = erased.error();
  }));
  sweep.failure = std::move(failure);
  sweep.deleted = deleted;
  return sweep;
}

Result<Sweep> visit_flows(Family family, Protocol protocol,
                          const std::function<void(const net::Flow&)>& visit) {
  return walk(family, protocol, [&](const TrackedFlow& tracked) { visit(tracked.flow); });
}

}  // namespace kernel
