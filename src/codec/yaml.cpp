#include "codec/yaml.h"

#include <yaml.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>

#include "base/text.h"
#include "codec/document.h"
#include "codec/yaml_scalar.h"

namespace codec::yaml {

namespace {

constexpr std::string_view kMergeTag = "tag:yaml.org,2002:merge";
constexpr size_t kBytesPerNode = 64;  // a text of this length is charged like one more node

std::string_view view(const yaml_char_t* text, size_t size) {
  return {reinterpret_cast<const char*>(text), size};
}

std::string_view view(const yaml_char_t* text) {
  return text == nullptr ? std::string_view() : reinterpret_cast<const char*>(text);
}

Position position_of(const yaml_mark_t& mark) {
  return {static_cast<uint32_t>(mark.line + 1), static_cast<uint32_t>(mark.column + 1)};
}

std::unexpected<base::Error> fail_at(Position at, std::string_view what) {
  std::string text = "line ";
  base::append_number(text, at.line);
  text += ", column ";
  base::append_number(text, at.column);
  text += ": ";
  text += what;
  return base::fail(base::ErrorCode::Invalid, std::move(text));
}

// One event of libyaml, released when it goes.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { yaml_event_delete(&event_); }

  yaml_event_t* fresh() {
    yaml_event_delete(&event_);
    return &event_;
  }
  const yaml_event_t* operator->() const { return &event_; }
  Position at() const { return position_of(event_.start_mark); }

 private:
  yaml_event_t event_{};
};

class Events {
 public:
  explicit Events(std::string_view text) : text_(text) {
    ready_ = yaml_parser_initialize(&parser_) == 1;
    if (!ready_) return;
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events() {
    if (ready_) yaml_parser_delete(&parser_);
  }

  base::Result<> next(Event& out) {
    if (!ready_) return base::fail(base::ErrorCode::System, "out of memory");
    if (yaml_parser_parse(&parser_, out.fresh()) == 1) return {};
    std::string what = parser_.problem == nullptr ? "not YAML" : parser_.problem;
    if (parser_.context != nullptr) what += std::string(" ") + parser_.context;
    return fail_at(problem_position(), what);
  }

 private:
  // The reader (bytes that are not UTF-8, control characters) knows only an offset.
  Position problem_position() const {
    if (parser_.error != YAML_READER_ERROR) return position_of(parser_.problem_mark);
    const auto before = text_.substr(0, std::min(parser_.problem_offset, text_.size()));
    const size_t line_start = before.find_last_of('\n') + 1;  // npos + 1 is 0
    const auto lines = std::ranges::count(before, '\n');
    return {static_cast<uint32_t>(lines + 1),
            static_cast<uint32_t>(before.size() - line_start + 1)};
  }

  std::string_view text_;
  yaml_parser_t parser_{};
  bool ready_ = false;
};

// An anchored value, kept for the aliases behind it.
struct Anchor {
  bool complete = false;
  Value value;
  size_t cost = 0;
  int height = 0;
};

// What building a value has cost, told upwards.
struct Built {
  Value value;
  int height = 1;
};

// Builds one document. Recursion is bounded by Limits::depth, memory by Limits::nodes: a copy made
// for an alias or an anchor is charged like the original, long strings by their length.
class Builder {
 public:
  Builder(Events& events, const Limits& limits) : events_(events), limits_(limits) {}

  base::Result<Value> document() {
    Event event;
    TRY(events_.next(event));
    return TRY(node(event, 1)).value;
  }

 private:
  base::Result<Built> node(const Event& event, int depth) {
    if (depth > limits_.depth) return fail_at(event.at(), "nested too deep");
    TRY(charge(1, event.at()));
    switch (event->type) {
      case YAML_ALIAS_EVENT:
        return alias(event, depth);
      case YAML_SCALAR_EVENT:
        return anchored(event, event->data.scalar.anchor, depth);
      case YAML_SEQUENCE_START_EVENT:
        return anchored(event, event->data.sequence_start.anchor, depth);
      case YAML_MAPPING_START_EVENT:
        return anchored(event, event->data.mapping_start.anchor, depth);
      default:
        return fail_at(event.at(), "unexpected end of the document");
    }
  }

  base::Result<> charge(size_t nodes, Position at) {
    if (nodes > limits_.nodes - spent_) {
      return fail_at(at, "the document is too large, aliases included");
    }
    spent_ += nodes;
    return {};
  }

  base::Result<Built> anchored(const Event& event, const yaml_char_t* anchor, int depth) {
    if (anchor == nullptr) return content(event, depth);
    const std::string name(view(anchor));
    anchors_[name] = Anchor{};
    const size_t before = spent_;
    Built built = TRY(content(event, depth));
    const size_t cost = spent_ - before + 1;
    TRY(charge(cost, event.at()));
    anchors_[name] = Anchor{true, built.value, cost, built.height};
    return built;
  }

  base::Result<Built> alias(const Event& event, int depth) {
    const std::string name(view(event->data.alias.anchor));
    const auto found = anchors_.find(name);
    if (found == anchors_.end()) {
      return fail_at(event.at(), "unknown anchor " + base::quote(name) + " referenced");
    }
    const Anchor& anchor = found->second;
    if (!anchor.complete) {
      return fail_at(event.at(), "anchor " + base::quote(name) + " contains itself");
    }
    TRY(charge(anchor.cost, event.at()));
    if (depth + anchor.height - 1 > limits_.depth) return fail_at(event.at(), "nested too deep");
    return Built{anchor.value, anchor.height};
  }

  base::Result<Built> content(const Event& event, int depth) {
    const Position at = event.at();
    Built built;
    if (event->type == YAML_SEQUENCE_START_EVENT) {
      built = TRY(sequence(depth));
    } else if (event->type == YAML_MAPPING_START_EVENT) {
      built = TRY(mapping(depth));
    } else {
      built.value = TRY(scalar(event));
    }
    built.value.at = at;
    return built;
  }

  base::Result<Value> scalar(const Event& event) {
    const auto& data = event->data.scalar;
    TRY(charge(data.length / kBytesPerNode, event.at()));
    const std::string_view text = view(data.value, data.length);
    if (data.tag != nullptr) {
      auto value = resolve_tagged(view(data.tag), text);
      if (value) return *std::move(value);
      return fail_at(event.at(), "cannot decode " + base::quote(text.substr(0, 80)) + " as " +
                                     std::string(view(data.tag)));
    }
    if (data.style != YAML_PLAIN_SCALAR_STYLE) return Value(std::string(text));
    return resolve_plain(text);
  }

  base::Result<Built> sequence(int depth) {
    Value::Array elements;
    int height = 0;
    Event event;
    while (true) {
      TRY(events_.next(event));
      if (event->type == YAML_SEQUENCE_END_EVENT) break;
      Built element = TRY(node(event, depth + 1));
      height = std::max(height, element.height);
      elements.push_back(std::move(element.value));
    }
    return Built{Value(std::move(elements)), height + 1};
  }

  base::Result<Built> mapping(int depth) {
    Value::Object members;
    std::vector<Value> merges;
    int height = 0;
    Event event;
    while (true) {
      TRY(events_.next(event));
      if (event->type == YAML_MAPPING_END_EVENT) break;
      const bool merge = is_merge_key(event);
      Member member{.name = TRY(key(event, depth + 1)), .at = event.at(), .value = {}};
      TRY(events_.next(event));
      Built built = TRY(node(event, depth + 1));
      height = std::max(height, built.height);
      member.value = std::move(built.value);
      if (merge) {
        merges.push_back(std::move(member.value));
      } else {
        members.push_back(std::move(member));
      }
    }
    if (!merges.empty()) TRY(merge_into(members, std::move(merges)));
    return Built{Value(std::move(members)), height + 1};
  }

  static bool is_merge_key(const Event& event) {
    if (event->type != YAML_SCALAR_EVENT) return false;
    const auto& data = event->data.scalar;
    if (data.tag != nullptr) return view(data.tag) == kMergeTag;
    return data.style == YAML_PLAIN_SCALAR_STYLE && view(data.value, data.length) == "<<";
  }

  // The usual key: neither tag nor anchor, and a text for sure.
  static bool is_simple_key(const Event& event) {
    if (event->type != YAML_SCALAR_EVENT) return false;
    const auto& data = event->data.scalar;
    return data.tag == nullptr && data.anchor == nullptr &&
           is_plainly_text(view(data.value, data.length));
  }

  // Parity: a key that YAML takes for a boolean or a whole number is the text of that, so that
  // `on: 1` sets "true" and `0x10: 1` sets "16".
  base::Result<std::string> key(const Event& event, int depth) {
    const Position at = event.at();
    if (is_merge_key(event)) return std::string("<<");
    if (is_simple_key(event)) {
      const auto& data = event->data.scalar;
      TRY(charge(1 + data.length / kBytesPerNode, at));
      return std::string(view(data.value, data.length));
    }
    if (event->type != YAML_SCALAR_EVENT && event->type != YAML_ALIAS_EVENT) {
      return fail_at(at, "a key must be a scalar");
    }
    const Value value = TRY(node(event, depth)).value;
    if (const auto* text = value.as_string()) return *text;
    if (const auto* truth = value.as_bool()) return std::string(*truth ? "true" : "false");
    if (const auto* number = value.as_int()) return std::to_string(*number);
    if (value.as_double() != nullptr && event->type == YAML_SCALAR_EVENT) {
      return std::string(view(event->data.scalar.value, event->data.scalar.length));
    }
    return fail_at(at, "a key must be a text, a boolean or a number");
  }

  // What is written in the map itself wins, then the earlier of the merged maps.
  static base::Result<> merge_into(Value::Object& members, std::vector<Value> merges) {
    std::unordered_set<std::string> names;
    for (const Member& member : members)
      names.insert(member.name);
    const auto merge = [&](Value& source) -> base::Result<> {
      auto* object = source.as_object();
      if (object == nullptr) {
        return fail_at(source.at, "a merge key needs a map or a sequence of maps");
      }
      for (Member& member : *object) {
        if (names.insert(member.name).second) members.push_back(std::move(member));
      }
      return {};
    };
    for (Value& source : merges) {
      auto* list = source.as_array();
      if (list == nullptr) {
        TRY(merge(source));
        continue;
      }
      for (Value& element : *list)
        TRY(merge(element));
    }
    return {};
  }

  Events& events_;
  Limits limits_;
  size_t spent_ = 0;
  std::map<std::string, Anchor> anchors_;
};

}  // namespace

base::Result<> parse_stream(std::string_view text,
                            const std::function<base::Result<>(Value)>& visit,
                            const Limits& limits) {
  Events events(text);
  Event event;
  while (true) {
    TRY(events.next(event));
    if (event->type == YAML_STREAM_END_EVENT || event->type == YAML_NO_EVENT) return {};
    if (event->type != YAML_DOCUMENT_START_EVENT) continue;
    Value value = TRY(Builder(events, limits).document());
    if (!value.is_null()) TRY(visit(std::move(value)));
  }
}

base::Result<Value> parse(std::string_view text) {
  std::optional<Value> only;
  TRY(parse_stream(text, [&](Value value) -> base::Result<> {
    if (only) return fail_at(value.at, "a second document where only one is expected");
    only = std::move(value);
    return {};
  }));
  return only ? *std::move(only) : Value();
}

std::vector<std::string> duplicate_keys(const Value& value) {
  std::vector<std::string> out;
  for (const RepeatedKey& key : repeated_keys(value)) {
    std::string text = "line ";
    base::append_number(text, key.at.line);
    out.push_back(text + ": key " + base::quote(key.name) + " already set in map");
  }
  return out;
}

}  // namespace codec::yaml
