#include "codec/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "codec/utf8.h"

namespace codec::json {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Recursive descent. Each function returns false after it has called fail(), and then nothing more
// is read. Recursion is bounded by Limits::depth.
class Parser {
 public:
  Parser(std::string_view text, const Limits& limits)
      : at_(text.data()), end_(text.data() + text.size()), line_start_(at_), limits_(limits) {}

  bool document(Value& out) {
    nodes_ = 0;
    skip_space();
    return value(out, 1);
  }

  bool at_end() {
    skip_space();
    return at_ == end_;
  }

  bool fail(std::string_view what) {
    const Position here = position();
    error_ = "line ";
    base::append_number(error_, here.line);
    error_ += ", column ";
    base::append_number(error_, here.column);
    error_ += ": ";
    error_ += what;
    return false;
  }

  std::unexpected<base::Error> error() {
    return base::fail(base::ErrorCode::Invalid, std::move(error_));
  }

 private:
  Position position() const { return {line_, static_cast<uint32_t>(at_ - line_start_ + 1)}; }

  bool fail_here(std::string_view expected) {
    if (at_ == end_) return fail("unexpected end of text, expected " + std::string(expected));
    const size_t length = std::max<size_t>(utf8_length({at_, end_}), 1);
    return fail("unexpected " + base::quote({at_, length}) + ", expected " + std::string(expected));
  }

  void skip_space() {
    for (; at_ != end_ && is_space(*at_); ++at_) {
      if (*at_ == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      }
    }
  }

  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  bool value(Value& out, int depth) {
    if (depth > limits_.depth) return fail("nested too deep");
    if (++nodes_ > limits_.nodes) return fail("the document is too large");
    const Position start = position();
    if (!value_of_any_kind(out, depth)) return false;
    out.at = start;
    return true;
  }

  bool value_of_any_kind(Value& out, int depth) {
    if (at_ == end_) return fail_here("a value");
    switch (*at_) {
      case '{':
        return object(out, depth);
      case '[':
        return array(out, depth);
      case '"': {
        std::string text;
        if (!string(text)) return false;
        out = Value(std::move(text));
        return true;
      }
      case 't':
        return word("true", out, Value(true));
      case 'f':
        return word("false", out, Value(false));
      case 'n':
        return word("null", out, Value());
      default:
        if (*at_ == '-' || is_digit(*at_)) return number(out);
        return fail_here("a value");
    }
  }

  bool word(std::string_view word, Value& out, Value meaning) {
    if (!std::string_view(at_, end_).starts_with(word)) return fail_here("a value");
    at_ += word.size();
    out = std::move(meaning);
    return true;
  }

  bool array(Value& out, int depth) {
    ++at_;
    out = Value(Value::Array{});
    auto& elements = *out.as_array();
    skip_space();
    if (take(']')) return true;
    while (true) {
      skip_space();
      if (!value(elements.emplace_back(), depth + 1)) return false;
      skip_space();
      if (take(']')) return true;
      if (!take(',')) return fail_here("',' or ']'");
    }
  }

  bool object(Value& out, int depth) {
    ++at_;
    out = Value(Value::Object{});
    auto& members = *out.as_object();
    skip_space();
    if (take('}')) return true;
    while (true) {
      skip_space();
      if (!member(members.emplace_back(), depth)) return false;
      skip_space();
      if (take('}')) return true;
      if (!take(',')) return fail_here("',' or '}'");
    }
  }

  bool member(Member& out, int depth) {
    out.at = position();
    if (at_ == end_ || *at_ != '"') return fail_here("a name in double quotes");
    if (!string(out.name)) return false;
    skip_space();
    if (!take(':')) return fail_here("':'");
    skip_space();
    return value(out.value, depth + 1);
  }

  bool string(std::string& out) {
    ++at_;
    while (true) {
      copy_plain(out);
      if (at_ == end_) return fail("unexpected end of text inside a string");
      if (take('"')) return true;
      if (take('\\')) {
        if (!escape(out)) return false;
      } else if (static_cast<unsigned char>(*at_) < 0x20) {
        return fail("control character inside a string");
      } else {
        not_ascii(out);
      }
    }
  }

  // The bytes up to the next one that needs a closer look.
  void copy_plain(std::string& out) {
    const char* start = at_;
    while (at_ != end_ && *at_ != '"' && *at_ != '\\' && *at_ >= 0x20)
      ++at_;
    out.append(start, at_);
  }

  void not_ascii(std::string& out) {
    const size_t length = utf8_length({at_, end_});
    out += length == 0 ? kReplacement : std::string_view(at_, length);
    at_ += std::max<size_t>(length, 1);
  }

  bool escape(std::string& out) {
    if (at_ == end_) return fail("unexpected end of text inside a string");
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (const size_t index = kLetters.find(*at_); index != std::string_view::npos) {
      out += kMeanings[index];
      ++at_;
      return true;
    }
    uint32_t code_point = 0;
    if (!take('u') || !four_hex(code_point)) return fail("invalid escape inside a string");
    if (code_point >= 0xd800 && code_point < 0xdc00) join_surrogates(code_point);
    append_utf8(out, code_point);
    return true;
  }

  bool four_hex(uint32_t& out) {
    if (end_ - at_ < 4) return false;
    const auto number = base::parse_number<uint32_t>({at_, 4}, 16);
    if (!number) return false;
    out = *number;
    at_ += 4;
    return true;
  }

  // high is \ud800..\udbff: takes the low half behind it, if there is one.
  void join_surrogates(uint32_t& high) {
    const char* before = at_;
    uint32_t low = 0;
    if (take('\\') && take('u') && four_hex(low) && low >= 0xdc00 && low < 0xe000) {
      high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    } else {
      at_ = before;
    }
  }

  bool digits() {
    if (at_ == end_ || !is_digit(*at_)) return fail_here("a digit");
    while (at_ != end_ && is_digit(*at_))
      ++at_;
    return true;
  }

  bool number(Value& out) {
    const char* start = at_;
    take('-');
    const bool zero = at_ != end_ && *at_ == '0';
    if (zero ? !take('0') : !digits()) return false;
    bool whole = true;
    if (take('.')) {
      whole = false;
      if (!digits()) return false;
    }
    if (take('e') || take('E')) {
      whole = false;
      if (!take('+')) take('-');
      if (!digits()) return false;
    }
    return convert({start, at_}, whole, out);
  }

  bool convert(std::string_view text, bool whole, Value& out) {
    if (const auto number = base::parse_number<int64_t>(text); whole && number) {
      out = Value(*number);
      return true;
    }
    double number = 0;
    if (std::from_chars(text.begin(), text.end(), number).ec == std::errc::result_out_of_range) {
      return fail("the number is out of range");
    }
    out = Value(number);
    return true;
  }

  const char* at_;
  const char* end_;
  const char* line_start_;
  uint32_t line_ = 1;
  Limits limits_;
  size_t nodes_ = 0;
  std::string error_;
};

void append_escaped(std::string& out, char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kMeanings = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  out += '\\';
  if (const size_t index = kMeanings.find(c); index != std::string_view::npos) {
    out += kLetters[index];
    return;
  }
  const auto byte = static_cast<unsigned char>(c);
  out += "u00";
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

void append_double(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  char digits[32];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

void append_array(std::string& out, const Value::Array& elements) {
  out += '[';
  for (const Value& element : elements) {
    if (&element != &elements.front()) out += ',';
    append(out, element);
  }
  out += ']';
}

void append_object(std::string& out, const Value::Object& members) {
  out += '{';
  for (const Member& member : members) {
    if (&member != &members.front()) out += ',';
    append_string(out, member.name);
    out += ':';
    append(out, member.value);
  }
  out += '}';
}

}  // namespace

base::Result<Value> parse(std::string_view text, const Limits& limits) {
  Parser parser(text, limits);
  Value value;
  if (!parser.document(value)) return parser.error();
  if (!parser.at_end()) {
    parser.fail("unexpected text after the end of the document");
    return parser.error();
  }
  return value;
}

base::Result<> parse_stream(std::string_view text,
                            const std::function<base::Result<>(Value)>& visit,
                            const Limits& limits) {
  Parser parser(text, limits);
  while (!parser.at_end()) {
    Value value;
    if (!parser.document(value)) return parser.error();
    TRY(visit(std::move(value)));
  }
  return {};
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const char c = text[0];
    const size_t length = utf8_length(text);
    if (c == '"' || c == '\\' || (c >= 0 && c < 0x20)) {
      append_escaped(out, c);
    } else {
      out += length == 0 ? kReplacement : text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  out += '"';
}

void append(std::string& out, const Value& value) {
  if (value.is_null()) {
    out += "null";
  } else if (const bool* truth = value.as_bool()) {
    out += *truth ? "true" : "false";
  } else if (const int64_t* number = value.as_int()) {
    base::append_number(out, *number);
  } else if (const double* real = value.as_double()) {
    append_double(out, *real);
  } else if (const std::string* text = value.as_string()) {
    append_string(out, *text);
  } else if (const auto* elements = value.as_array()) {
    append_array(out, *elements);
  } else {
    append_object(out, *value.as_object());
  }
}

}  // namespace codec::json
