#include "backend/iptables/transaction.h"

#include <algorithm>
#include <numeric>

#include "base/text.h"

namespace iptables {
namespace {

void append_head(Text& out, std::string_view chain) {
  out.append(":");
  out.append(chain);
  out.append(" - [0:0]\n");
}

void move_into(std::vector<std::string>& out, Text& text) {
  for (auto& piece : text.take())
    out.push_back(std::move(piece));
}

}  // namespace

void Text::append(std::string_view text) {
  if (text.empty()) return;
  if (pieces_.empty() || pieces_.back().size() + text.size() > kPieceBytes) {
    // Small transactions stay small: only the second piece announces a long text.
    const bool first = pieces_.empty();
    pieces_.emplace_back();
    if (!first) pieces_.back().reserve(kPieceBytes);
  }
  pieces_.back() += text;
}

size_t Transaction::bytes() const {
  size_t total = 0;
  for (const auto& piece : pieces)
    total += piece.size();
  return total;
}

size_t Transaction::rule_count() const {
  return std::accumulate(rules.begin(), rules.end(), jumps);
}

std::string Transaction::str() const {
  std::string out;
  out.reserve(bytes());
  for (const auto& piece : pieces)
    out += piece;
  return out;
}

std::optional<size_t> failed_line(std::string_view complaint) {
  // "iptables-restore: line 5 failed", or "line 5: CHAIN_DEL failed (...)" by the nf_tables variant.
  size_t at = complaint.find("line ");
  for (; at != std::string_view::npos; at = complaint.find("line ", at + 1)) {
    const std::string_view rest = complaint.substr(at + 5);
    const auto number =
        base::parse_number<size_t>(rest.substr(0, rest.find_first_not_of("0123456789")));
    if (number && *number > 0) return number;
  }
  return std::nullopt;
}

std::string lines_around(std::string_view text, size_t line) {
  constexpr size_t kContext = 3;
  const auto lines = base::split(text, '\n');
  std::string out;
  const size_t first = line > kContext ? line - kContext : 1;
  for (size_t number = first; number <= std::min(line + kContext, lines.size()); ++number) {
    out += std::to_string(number) + ": " + std::string(lines[number - 1]) + "\n";
  }
  return out;
}

void TransactionBuilder::write_chain(Table table, std::string_view name, std::string_view rules) {
  open_chain(table, name);
  add_rules(table, rules);
}

void TransactionBuilder::open_chain(Table table, std::string_view name) {
  append_head(part(table).heads, name);
  ++chains_;
}

void TransactionBuilder::add_rules(Table table, std::string_view rules) {
  part(table).rules.append(rules);
  rules_[static_cast<size_t>(table)] += static_cast<size_t>(std::ranges::count(rules, '\n'));
}

void TransactionBuilder::delete_chain(Table table, std::string_view name) {
  append_head(part(table).heads, name);  // empties it: only then do its own jumps go away
  Text& deletes = part(table).deletes;
  deletes.append("-X ");
  deletes.append(name);
  deletes.append("\n");
  ++chains_;
  ++deletes_;
}

void TransactionBuilder::insert_at_top(Table table, std::string_view rule) {
  Text& jumps = part(table).jumps;
  jumps.append("-I");
  jumps.append(rule.substr(2));
  jumps.append("\n");
  ++jumps_;
}

void TransactionBuilder::append_at_bottom(Table table, std::string_view rule) {
  Text& jumps = part(table).jumps;
  jumps.append(rule);
  jumps.append("\n");
  ++jumps_;
}

void TransactionBuilder::remove_rule(Table table, std::string_view rule) {
  Text& removals = part(table).removals;
  removals.append("-D");
  removals.append(rule.substr(2));
  removals.append("\n");
}

Transaction TransactionBuilder::finish() {
  Transaction transaction;
  for (const Table table : kTables) {
    Part& p = part(table);
    if (p.heads.empty() && p.jumps.empty() && p.removals.empty()) continue;
    transaction.pieces.push_back("*" + std::string(name(table)) + "\n");
    move_into(transaction.pieces, p.heads);
    move_into(transaction.pieces, p.removals);
    move_into(transaction.pieces, p.rules);
    move_into(transaction.pieces, p.jumps);
    move_into(transaction.pieces, p.deletes);
    transaction.pieces.push_back("COMMIT\n");
  }
  transaction.rules = rules_;
  transaction.jumps = jumps_;
  transaction.chains = chains_;
  transaction.deletes = deletes_;
  return transaction;
}

}  // namespace iptables
