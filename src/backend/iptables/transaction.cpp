#include "backend/iptables/transaction.h"

#include <algorithm>

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

size_t Text::size() const {
  size_t total = 0;
  for (const auto& piece : pieces_)
    total += piece.size();
  return total;
}

size_t Transaction::bytes() const {
  size_t total = 0;
  for (const auto& piece : pieces)
    total += piece.size();
  return total;
}

std::string Transaction::str() const {
  std::string out;
  out.reserve(bytes());
  for (const auto& piece : pieces)
    out += piece;
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
  rules_ += static_cast<size_t>(std::ranges::count(rules, '\n'));
}

void TransactionBuilder::delete_chain(Table table, std::string_view name) {
  append_head(part(table).heads, name);  // empties it: only then do its own jumps go away
  Text& deletes = part(table).deletes;
  deletes.append("-X ");
  deletes.append(name);
  deletes.append("\n");
  ++chains_;
}

void TransactionBuilder::insert_at_top(Table table, std::string_view rule) {
  Text& jumps = part(table).jumps;
  jumps.append("-I");
  jumps.append(rule.substr(2));
  jumps.append("\n");
  ++rules_;
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
  transaction.chains = chains_;
  return transaction;
}

}  // namespace iptables
