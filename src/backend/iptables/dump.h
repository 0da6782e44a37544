// Reading iptables-save text, line by line.
//
// The text comes from a program and may be anything: parse_line() accepts whatever it gets and
// calls what it does not understand Other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <boost/unordered/unordered_flat_map.hpp>

#include "backend/iptables/rules.h"
#include "base/lines.h"

namespace iptables {

struct DumpLine {
  enum class Kind : uint8_t { Table, Chain, Rule, Commit, Other };
  Kind kind = Kind::Other;
  std::string_view name;    // of the table, or of the chain
  std::string_view policy;  // Chain: "ACCEPT", "-"
  std::string_view rule;    // Rule: the whole line without counters, "-A CHAIN ..."
};
DumpLine parse_line(std::string_view line);

// Lets a map with string keys be searched with a string_view.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

// What the kernel holds of one table, as far as a sync needs to know it.
struct ObservedTable {
  struct Chain {
    bool user_defined = false;
    RuleDigest rules;
  };
  boost::unordered_flat_map<std::string, Chain, TextHash, std::equal_to<>> chains;
  std::string jumps;  // lines of built-in chains that lead to KUBE- chains, each with a newline

  bool has_jump(std::string_view rule) const { return count_jump(rule) > 0; }
  // Somebody may have put it there twice.
  size_t count_jump(std::string_view rule) const;
};

// Folds a dump of one table, piece by piece, without keeping it.
class DumpReader {
 public:
  // Any number of bytes, cut anywhere.
  void feed(std::string_view bytes) {
    lines_.feed(bytes, [this](std::string_view text) { line(text); });
  }
  // REQUIRES: called once, after the last piece.
  ObservedTable finish();

 private:
  void line(std::string_view line);

  base::LineReader lines_;
  ObservedTable table_;
  ObservedTable::Chain* last_chain_ = nullptr;  // of the previous rule: rules come grouped
  std::string last_name_;
};

}  // namespace iptables
