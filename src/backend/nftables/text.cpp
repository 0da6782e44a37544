#include "backend/nftables/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ranges>
#include <utility>

#include "base/text.h"

namespace nftables {
namespace {

using base::append_number;

std::string_view ip_word(net::Family family) { return family == net::Family::V4 ? "ip" : "ip6"; }

int bits_of(net::Family family) { return family == net::Family::V4 ? 32 : 128; }

void append_hex(std::string& out, uint32_t number) {
  char digits[sizeof "0x00000000"];
  std::snprintf(digits, sizeof digits, "0x%08x", number);
  out += digits;
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  out += text;
  out += '"';
}

void append_comment(std::string& out, std::string_view comment) {
  if (comment.empty()) return;
  out += " comment ";
  append_quoted(out, comment);
}

// As the C library writes it, like nft: "::1.2.3.4" is not what net::IpAddr says.
void append_address(std::string& out, const uint8_t* bytes, net::Family family) {
  char text[INET6_ADDRSTRLEN];
  inet_ntop(family == net::Family::V4 ? AF_INET : AF_INET6, bytes, text, sizeof text);
  out += text;
}

// Nothing behind the address of a host.
void append_prefix_length(std::string& out, int length, net::Family family) {
  if (length == bits_of(family)) return;
  out += '/';
  append_number(out, length);
}

// 5401 s -> "1h30m1s"
void append_duration(std::string& out, std::chrono::seconds left) {
  constexpr std::array<std::pair<char, std::chrono::seconds>, 4> kUnits{
      {{'d', std::chrono::days(1)},
       {'h', std::chrono::hours(1)},
       {'m', std::chrono::minutes(1)},
       {'s', std::chrono::seconds(1)}}};
  for (const auto& [letter, unit] : kUnits) {
    if (left < unit) continue;
    append_number(out, left / unit);
    out += letter;
    left %= unit;
  }
}

// Rules.

std::string_view word(Field field, net::Family family) {
  const bool v4 = family == net::Family::V4;
  switch (field) {
    case Field::SourceAddress:
      return v4 ? "ip saddr" : "ip6 saddr";
    case Field::DestinationAddress:
      return v4 ? "ip daddr" : "ip6 daddr";
    case Field::Protocol:
      return "meta l4proto";
    case Field::DestinationPort:
      return "th dport";
    case Field::OriginalAddress:
      return v4 ? "ct original ip daddr" : "ct original ip6 daddr";
    case Field::OriginalPort:
      return "ct original proto-dst";
  }
  __builtin_unreachable();
}

// Each statement begins with the blank that parts it from the one before.
class RuleWriter {
 public:
  RuleWriter(std::string& out, net::Family family) : out_(out), family_(family) {}

  void operator()(const New&) { out_ += " ct state new"; }
  void operator()(const Translated&) { out_ += " ct status dnat"; }
  void operator()(const Within& within) {
    append_field(within.field);
    if (within.inverted) out_ += " !=";
    out_ += ' ';
    append_address(out_, within.cidr.base().data(), family_);
    append_prefix_length(out_, within.cidr.prefix_length(), family_);
  }
  void operator()(const Enters& enters) {
    out_ += enters.inverted ? " iifname != " : " iifname ";
    std::string pattern = enters.interface;
    if (enters.prefix) {
      pattern += '*';
    } else if (pattern.ends_with('*')) {
      pattern.insert(pattern.size() - 1, 1, '\\');
    }
    append_quoted(out_, pattern);
  }
  void operator()(const IsLocal& local) {
    out_ += local.field == Field::SourceAddress ? " fib saddr type local" : " fib daddr type local";
  }
  void operator()(const Marked& marked) {
    out_ += " meta mark & ";
    append_hex(out_, marked.bits);
    out_ += " != ";
    append_hex(out_, 0);
  }
  void operator()(const Member& member) {
    append_key(member.key);
    append_set(" @", member.set);
  }
  void operator()(const Dispatch& dispatch) {
    append_key(dispatch.key);
    append_set(" vmap @", dispatch.map);
  }
  void operator()(const Mark& mark) {
    out_ += " meta mark set meta mark ";
    out_ += mark.toggle ? "^ " : "| ";
    append_hex(out_, mark.bits);
  }
  void operator()(const Verdict& verdict) {
    out_ += ' ';
    switch (verdict.kind) {
      case Verdict::Kind::Drop:
        out_ += "drop";
        break;
      case Verdict::Kind::Return:
        out_ += "return";
        break;
      case Verdict::Kind::Jump:
        out_ += "jump " + verdict.chain;
        break;
      case Verdict::Kind::Goto:
        out_ += "goto " + verdict.chain;
        break;
    }
  }
  void operator()(const Reject&) { out_ += " reject"; }
  void operator()(const Masquerade&) { out_ += " masquerade fully-random"; }
  void operator()(const Translate& translate) {
    out_ += " dnat ";
    out_ += ip_word(family_);
    out_ += " to";
    append_key(translate.key);
    append_set(" map @", translate.map);
  }
  void operator()(const Remember& remember) {
    append_set(" update @", remember.map);
    out_ += " {";
    append_key(remember.key);
    out_ += " timeout ";
    append_duration(out_, remember.timeout);
    out_ += " :";
    append_key(remember.data);
    out_ += " }";
  }

 private:
  void append_field(Field field) {
    out_ += ' ';
    out_ += word(field, family_);
  }
  void append_part(Field field) { append_field(field); }
  void append_part(const Draw& draw) {
    out_ += " numgen random mod ";
    append_number(out_, draw.count);
    if (draw.offset == 0) return;
    out_ += " offset ";
    append_number(out_, draw.offset);
  }
  void append_key(const Key& key) {
    for (const auto& part : key) {
      if (&part != &key.front()) out_ += " .";
      std::visit([this](const auto& one) { append_part(one); }, part);
    }
  }
  void append_set(std::string_view before, SetId set) {
    out_ += before;
    out_ += name(set);
  }

  std::string& out_;
  net::Family family_;
};

// Elements.

size_t field_size(FieldType type, net::Family family) {
  return type == FieldType::Address && family == net::Family::V6 ? 16 : 4;
}

void append_protocol(std::string& out, uint8_t number) {
  switch (number) {
    case IPPROTO_TCP:
      out += net::lower_name(net::Protocol::Tcp);
      break;
    case IPPROTO_UDP:
      out += net::lower_name(net::Protocol::Udp);
      break;
    case IPPROTO_SCTP:
      out += net::lower_name(net::Protocol::Sctp);
      break;
    default:
      append_number(out, number);
  }
}

void append_field(std::string& out, FieldType type, const uint8_t* bytes, net::Family family) {
  uint32_t mark = 0;
  switch (type) {
    case FieldType::Address:
      return append_address(out, bytes, family);
    case FieldType::Protocol:
      return append_protocol(out, bytes[0]);
    case FieldType::Port:
      return append_number(out, bytes[0] << 8 | bytes[1]);
    case FieldType::Mark:
      std::memcpy(&mark, bytes, sizeof mark);
      return append_hex(out, mark);
  }
}

void append_fields(std::string& out, const std::vector<FieldType>& fields, const Bytes& bytes,
                   net::Family family) {
  const uint8_t* at = bytes.view().data();
  for (const auto& type : fields) {
    if (&type != &fields.front()) out += " . ";
    append_field(out, type, at, family);
    at += field_size(type, family);
  }
}

// How long the prefix is that all keys from `first` to `last` have in common, in their last field.
int prefix_length(const Bytes& first, const Bytes& last, net::Family family) {
  int length = bits_of(family);
  for (size_t i = 0; i < first.size(); ++i)
    length -= std::popcount(static_cast<uint8_t>(first.view()[i] ^ last.view()[i]));
  return length;
}

void append_key(std::string& out, const Element& element, net::Family family) {
  append_fields(out, layout_of(element.set).key, element.key, family);
  if (element.key_end.empty()) return;
  append_prefix_length(out, prefix_length(element.key, element.key_end, family), family);
}

void append_element(std::string& out, const Element& element, net::Family family) {
  const auto& layout = layout_of(element.set);
  append_key(out, element, family);
  append_comment(out, element.comment);
  if (layout.holds == SetLayout::Holds::Verdicts) {
    const std::string chain = chain_name(element.target);
    out += chain.empty() ? " : drop" : " : goto " + chain;
  } else if (layout.holds == SetLayout::Holds::Values) {
    out += " : ";
    append_fields(out, layout.value, element.value, family);
  }
}

// nft takes a key of several fields for one number whose lowest byte comes first, and sorts by it. Ranges of such keys it
// leaves in the kernel's order: the one in which they got there.
bool stands_before(const Element* one, const Element* other) {
  const auto& layout = layout_of(one->set);
  const auto a = one->key.view();
  const auto b = other->key.view();
  if (layout.key.size() == 1) return std::ranges::lexicographical_compare(a, b);
  return !layout.interval &&
         std::ranges::lexicographical_compare(std::views::reverse(a), std::views::reverse(b));
}

// The table.

std::string_view type_word(FieldType type, net::Family family) {
  switch (type) {
    case FieldType::Address:
      return family == net::Family::V4 ? "ipv4_addr" : "ipv6_addr";
    case FieldType::Protocol:
      return "inet_proto";
    case FieldType::Port:
      return "inet_service";
    case FieldType::Mark:
      return "mark";
  }
  __builtin_unreachable();
}

struct NamedPriority {
  std::string_view name;
  int32_t number = 0;
  std::string_view point;  // where the name has this meaning; empty: everywhere
};
constexpr std::array<NamedPriority, 3> kPriorities{
    {{"filter", 0, ""}, {"dstnat", -100, "prerouting"}, {"srcnat", 100, "postrouting"}}};

// A priority is told by the name of one nearby.
std::string priority_text(const Hook& hook) {
  constexpr int32_t kNear = 10;
  for (const auto& [name, number, point] : kPriorities) {
    const int32_t distance = hook.priority - number;
    if (std::abs(distance) > kNear || (!point.empty() && point != hook.point)) continue;
    if (distance == 0) return std::string(name);
    return std::string(name) + (distance < 0 ? " - " : " + ") + std::to_string(std::abs(distance));
  }
  return std::to_string(hook.priority);
}

class TableWriter {
 public:
  explicit TableWriter(const Listing& listing)
      : listing_(listing), family_(listing.options.family) {
    for (const auto& element : listing.elements)
      elements_.at(static_cast<size_t>(element.set)).push_back(&element);
    for (auto& elements : elements_) {
      std::ranges::stable_sort(elements, stands_before);
      const auto again = std::ranges::unique(elements, {}, &Element::key);
      elements.erase(again.begin(), again.end());
    }
  }

  std::string write() && {
    out_ = "table ";
    out_ += ip_word(family_);
    out_ += ' ';
    out_ += kTable;
    out_ += " {\n";
    append_comment_line("\t", kTableComment);
    for (const SetId set : sets_of(listing_.options))
      append_set(set);
    for (const auto& chain : static_chains(listing_.options))
      append_chain(chain);
    auto targets = listing_.targets;
    std::ranges::sort(targets);
    for (const auto& target : targets)
      append_chain(chain_of(target, listing_.options));
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  void append_comment_line(std::string_view indent, std::string_view comment) {
    if (comment.empty()) return;
    out_ += indent;
    out_ += "comment ";
    append_quoted(out_, comment);
    out_ += '\n';
  }

  // A blank line parts sets and chains from one another.
  void open(std::string_view kind, std::string_view name) {
    if (!std::exchange(first_, false)) out_ += '\n';
    out_ += '\t';
    out_ += kind;
    out_ += ' ';
    out_ += name;
    out_ += " {\n";
  }
  void close() { out_ += "\t}\n"; }

  void append_types(const std::vector<FieldType>& types) {
    for (const auto& type : types) {
      if (&type != &types.front()) out_ += " . ";
      out_ += type_word(type, family_);
    }
  }

  void append_set(SetId set) {
    const auto& layout = layout_of(set);
    open(layout.holds == SetLayout::Holds::Keys ? "set" : "map", layout.name);
    append_type(layout);
    if (const auto size = declared_size(set, listing_.capacity); size != 0)
      out_ += "\t\tsize " + std::to_string(size) + "\n";
    if (layout.interval) out_ += "\t\tflags interval\n";
    if (layout.dynamic) out_ += "\t\tflags dynamic,timeout\n";
    append_comment_line("\t\t", layout.comment);
    append_elements(layout, elements_.at(static_cast<size_t>(set)));
    close();
  }

  void append_type(const SetLayout& layout) {
    out_ += "\t\ttype ";
    append_types(layout.key);
    if (layout.holds == SetLayout::Holds::Verdicts) out_ += " : verdict";
    if (layout.holds == SetLayout::Holds::Values) {
      out_ += " : ";
      append_types(layout.value);
    }
    out_ += '\n';
  }

  void append_elements(const SetLayout& layout, const std::vector<const Element*>& elements) {
    if (elements.empty()) return;
    // Lone IPv4 addresses are short enough for two in a line.
    const size_t per_line = layout.key.size() == 1 && family_ == net::Family::V4 ? 2 : 1;
    out_ += "\t\telements = { ";
    for (size_t i = 0; i < elements.size(); ++i) {
      if (i > 0) out_ += i % per_line == 0 ? ",\n\t\t\t     " : ", ";
      append_element(out_, *elements[i], family_);
    }
    out_ += " }\n";
  }

  void append_chain(const Chain& chain) {
    open("chain", chain.name);
    append_comment_line("\t\t", chain.comment);
    if (chain.hook) append_hook(*chain.hook);
    for (const auto& rule : chain.rules) {
      out_ += "\t\t";
      out_ += rule_text(rule, family_);
      out_ += '\n';
    }
    close();
  }

  void append_hook(const Hook& hook) {
    out_ += "\t\ttype ";
    out_ += hook.type;
    out_ += " hook ";
    out_ += hook.point;
    out_ += " priority " + priority_text(hook) + "; policy accept;\n";
  }

  const Listing& listing_;
  net::Family family_;
  std::array<std::vector<const Element*>, kSets> elements_;
  std::string out_;
  bool first_ = true;
};

}  // namespace

std::string rule_text(const Rule& rule, net::Family family) {
  std::string out;
  for (const auto& statement : rule.statements)
    std::visit(RuleWriter(out, family), statement);
  append_comment(out, rule.comment);
  return out.empty() ? out : out.substr(1);
}

std::string element_text(const Element& element, net::Family family) {
  std::string out;
  append_element(out, element, family);
  return out;
}

std::string list_table(const Listing& listing) { return TableWriter(listing).write(); }

}  // namespace nftables
