#include "backend/iptables/commit.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "kernel/process.h"

namespace iptables {
namespace {

using base::ErrorCode;
using base::Result;

// Exit statuses of the programs: a lock or another resource could not be had; a chain is not there. From 128 on,
// kernel::run() says that one was killed.
constexpr int kResourceProblem = 4;
constexpr int kNoSuchChain = 1;
constexpr int kKilled = 128;

constexpr std::string_view kWaitSeconds = "5";

// Transactions up to this size are kept until they are committed.
constexpr size_t kKeptBytes = 1 << 20;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// One line, with what to do where we know it.
base::Error explain(const std::string& program, const kernel::Output& output) {
  std::string text(base::trim(output.err));
  if (text.empty()) text = base::trim(output.out);
  const std::string what = program + " (exit status " + std::to_string(output.status) + ")";
  if (contains(text, "Permission denied") || contains(text, "Operation not permitted")) {
    return {ErrorCode::Permission,
            what +
                ": no permission to use netfilter: run as root, or with CAP_NET_ADMIN; if it does, "
                "see whether --keep-privileges helps"};
  }
  if (contains(text, "xtables lock")) {
    return {ErrorCode::Busy, what + ": another program has held the lock /run/xtables.lock for " +
                                 std::string(kWaitSeconds) +
                                 " s; see who with `fuser /run/xtables.lock`"};
  }
  if (output.status >= kKilled) return {ErrorCode::Lost, what + ": killed"};
  const ErrorCode code = output.status == kResourceProblem ? ErrorCode::Busy : ErrorCode::System;
  return {code, what + ": " + text};
}

Result<kernel::Output> run_program(kernel::Command command) {
  auto output = kernel::run(std::move(command));
  if (!output && output.error().code == ErrorCode::NotFound) {
    return base::fail(ErrorCode::NotFound, output.error().text + "; install the package iptables");
  }
  return output;
}

}  // namespace

Programs::Programs(net::Family family)
    : iptables_(family == net::Family::V4 ? "iptables" : "ip6tables") {}

Result<> Programs::probe() const {
  kernel::Command command;
  command.argv = {iptables_, "-w", std::string(kWaitSeconds), "-S", "POSTROUTING", "-t", "nat"};
  const auto output = TRY(run_program(std::move(command)));
  if (!output.ok()) return std::unexpected(explain(iptables_, output));
  return {};
}

std::string Programs::version() const {
  kernel::Command command;
  command.argv = {iptables_, "--version"};
  const auto output = run_program(std::move(command));
  return output && output->ok() ? std::string(base::trim(output->out)) : std::string();
}

bool Programs::random_fully() const {
  const std::string text = version();
  const size_t v = text.find(" v");
  if (v == std::string::npos) return true;
  std::array<int, 3> parts{};
  const auto numbers =
      base::split(std::string_view(text).substr(v + 2, text.find(' ', v + 1) - v - 2), '.');
  for (size_t i = 0; i < parts.size() && i < numbers.size(); ++i) {
    parts[i] = base::parse_number<int>(numbers[i]).value_or(0);
  }
  return parts >= std::array{1, 6, 2};
}

Result<> Programs::read_dump(Table table, std::vector<std::string> options,
                             std::function<void(std::string_view)> read) const {
  kernel::Command command;
  command.argv = {iptables_ + "-save", "-t", std::string(name(table))};
  std::ranges::move(options, std::back_inserter(command.argv));
  command.on_output = std::move(read);
  const auto output = TRY(run_program(std::move(command)));
  if (!output.ok()) return std::unexpected(explain(iptables_ + "-save", output));
  return {};
}

Result<ObservedTable> Programs::observe(Table table) const {
  DumpReader reader;
  TRY(read_dump(table, {}, [&](std::string_view bytes) { reader.feed(bytes); }));
  return reader.finish();
}

Result<ChainConnections> Programs::connections() const {
  ConnectionReader reader;
  TRY(read_dump(Table::Nat, {"-c"}, [&](std::string_view bytes) { reader.feed(bytes); }));
  return reader.finish();
}

Result<Observed> Programs::observe_all() const {
  Observed observed;
  for (const Table table : kTables)
    observed[table] = TRY(observe(table));
  return observed;
}

Result<std::string> Programs::save(Table table) const {
  std::string dump;
  TRY(read_dump(table, {}, [&](std::string_view bytes) { dump += bytes; }));
  return dump;
}

Result<> Programs::restore(Transaction transaction) const {
  if (transaction.empty()) return {};
  // Kept to quote from; not for the first sync of a large cluster, which would stand in memory twice.
  const std::string kept = transaction.bytes() <= kKeptBytes ? transaction.str() : std::string();
  kernel::Command command;
  command.argv = {iptables_ + "-restore", "-w", std::string(kWaitSeconds), "--noflush"};
  command.input = std::move(transaction.pieces);
  command.timeout = std::chrono::hours(1);  // iptables-nft needs many minutes for 10,000 Services
  const auto output = TRY(run_program(std::move(command)));
  if (output.ok()) return {};
  base::Error error = explain(iptables_ + "-restore", output);
  if (const auto line = failed_line(output.err); line && !kept.empty()) {
    error.text += "\n" + lines_around(kept, *line);
  }
  return std::unexpected(std::move(error));
}

Programs::Presence Programs::chain_presence(Table table, std::string_view chain) const {
  kernel::Command command;
  command.argv = {iptables_,          "-w", std::string(kWaitSeconds), "-S",
                  std::string(chain), "-t", std::string(name(table))};
  const auto output = run_program(std::move(command));
  if (!output) return Presence::Unknown;
  if (output->ok()) return Presence::There;
  return output->status == kNoSuchChain ? Presence::Gone : Presence::Unknown;
}

}  // namespace iptables
