// One change to the kernel, as text for `iptables-restore --noflush`: a value that can be printed,
// applied to a Tables value in a test, and committed. What is printed is what is sent.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/iptables/rules.h"

namespace iptables {

// How many rules, by table.
using RuleCounts = std::array<size_t, kTables.size()>;

// Text that grows in pieces of bounded size, so that 40 MB of rules need no 40 MB block, and each
// piece can be freed once it is written.
class Text {
 public:
  void append(std::string_view text);
  bool empty() const { return pieces_.empty(); }
  std::vector<std::string> take() { return std::move(pieces_); }

 private:
  static constexpr size_t kPieceBytes = 256 * 1024;
  std::vector<std::string> pieces_;
};

struct Transaction {
  std::vector<std::string> pieces;
  RuleCounts rules{};  // written by it into chains of ours
  size_t jumps = 0;    // written by it into built-in chains
  size_t chains = 0;   // created, rewritten or deleted by it
  size_t deletes = 0;  // of those, deleted

  bool empty() const { return pieces.empty(); }
  size_t rule_count() const;  // of all tables, jumps included
  size_t bytes() const;
  std::string str() const;
};

// The line that iptables-restore complains about ("line 5 failed"), if it names one.
std::optional<size_t> failed_line(std::string_view complaint);

// That line of the text and three on either side, each with its number: for error messages.
std::string lines_around(std::string_view text, size_t line);

// Collects what is to be done to each table, and puts it into an order that both variants of
// iptables-restore accept: a chain exists before it is jumped to, and is deleted when nothing
// jumps to it any more.
class TransactionBuilder {
 public:
  // Creates the chain, or empties it, and fills it with `rules` (whole lines).
  void write_chain(Table table, std::string_view name, std::string_view rules);
  // As write_chain, for chains whose rules come in parts.
  void open_chain(Table table, std::string_view name);
  void add_rules(Table table, std::string_view rules);
  void delete_chain(Table table, std::string_view name);
  // A rule of a built-in chain, "-A CHAIN ...", put at the top, at the bottom, or removed.
  void insert_at_top(Table table, std::string_view rule);
  void append_at_bottom(Table table, std::string_view rule);
  void remove_rule(Table table, std::string_view rule);

  Transaction finish();

 private:
  struct Part {
    Text heads;  // ":CHAIN - [0:0]" of chains that come with their rules
    Text rules;
    Text deletes;  // "-X CHAIN"
    Text jumps;
    Text removals;
  };
  Part& part(Table table) { return parts_[static_cast<size_t>(table)]; }

  Part parts_[kTables.size()];
  RuleCounts rules_{};
  size_t jumps_ = 0;
  size_t chains_ = 0;
  size_t deletes_ = 0;
};

}  // namespace iptables
