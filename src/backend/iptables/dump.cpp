#include "backend/iptables/dump.h"

#include "base/text.h"

namespace iptables {
namespace {

std::string_view take_word(std::string_view& text) {
  const size_t end = text.find(' ');
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

// "[12:3456] -A ..." -> "-A ..."
std::string_view without_counters(std::string_view line) {
  if (!line.starts_with('[')) return line;
  const size_t end = line.find("] ");
  return end == std::string_view::npos ? line : line.substr(end + 2);
}

}  // namespace

DumpLine parse_line(std::string_view line) {
  DumpLine parsed;
  if (line.starts_with('*')) {
    parsed.kind = DumpLine::Kind::Table;
    parsed.name = line.substr(1);
  } else if (line.starts_with(':')) {
    parsed.kind = DumpLine::Kind::Chain;
    std::string_view rest = line.substr(1);
    parsed.name = take_word(rest);
    parsed.policy = take_word(rest);
  } else if (line == "COMMIT") {
    parsed.kind = DumpLine::Kind::Commit;
  } else {
    const std::string_view rule = without_counters(line);
    if (!rule.starts_with("-A ")) return parsed;
    parsed.kind = DumpLine::Kind::Rule;
    std::string_view rest = rule.substr(3);
    parsed.name = take_word(rest);
    parsed.rule = rule;
  }
  return parsed;
}

size_t ObservedTable::count_jump(std::string_view rule) const {
  size_t count = 0;
  for (const auto line : base::split(jumps, '\n'))
    count += line == rule;
  return count;
}

ObservedTable DumpReader::finish() {
  lines_.finish([this](std::string_view text) { line(text); });
  return std::move(table_);
}

void DumpReader::line(std::string_view text) {
  const DumpLine parsed = parse_line(text);
  if (parsed.kind == DumpLine::Kind::Chain) {
    table_.chains[std::string(parsed.name)].user_defined = parsed.policy == "-";
    last_chain_ = nullptr;  // the map may have moved
    return;
  }
  if (parsed.kind != DumpLine::Kind::Rule) return;
  if (last_chain_ == nullptr || last_name_ != parsed.name) {
    last_name_ = parsed.name;
    const auto found = table_.chains.find(last_name_);
    last_chain_ = found == table_.chains.end() ? nullptr : &found->second;
  }
  if (last_chain_ == nullptr) return;
  last_chain_->rules.add_line(parsed.rule);
  if (!last_chain_->user_defined && parsed.rule.find(" -j KUBE-") != std::string_view::npos) {
    table_.jumps += parsed.rule;
    table_.jumps += '\n';
  }
}

}  // namespace iptables
