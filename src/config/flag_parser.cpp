#include "config/flag_parser.h"

#include <optional>

#include "base/text.h"

namespace config {
namespace {

using base::Result;

std::unexpected<base::Error> fail(std::string text) {
  return base::fail(base::ErrorCode::Invalid, std::move(text));
}

// Flags that may stand without a value mean "true" then.
bool value_is_optional(const Flag& flag) {
  return flag.type == FlagType::Bool || flag.type == FlagType::Version;
}

class Parser {
 public:
  Parser(std::span<const std::string> args, ParsedFlags& out) : rest_(args), out_(out) {}

  Result<> run() {
    while (!rest_.empty()) {
      const std::string& arg = take();
      if (arg.size() < 2 || arg[0] != '-') {
        out_.positional.push_back(arg);
      } else if (arg == "--") {
        out_.positional.insert(out_.positional.end(), rest_.begin(), rest_.end());
        return {};
      } else if (arg[1] == '-') {
        TRY(long_flag(arg));
      } else {
        TRY(short_flags(std::string_view(arg).substr(1)));
      }
    }
    return {};
  }

 private:
  const std::string& take() {
    const std::string& arg = rest_.front();
    rest_ = rest_.subspan(1);
    return arg;
  }

  Result<> long_flag(const std::string& arg) {
    const std::string_view body = std::string_view(arg).substr(2);
    if (body[0] == '-' || body[0] == '=') return fail("bad flag syntax: " + arg);
    const size_t equals = body.find('=');
    const std::string name(body.substr(0, equals));
    const Flag* flag = find_flag(name);
    if (flag == nullptr) return fail("unknown flag: --" + name);
    if (equals != std::string_view::npos) return set(*flag, body.substr(equals + 1));
    if (value_is_optional(*flag)) return set(*flag, "true");
    if (rest_.empty()) return fail("flag needs an argument: --" + name);
    return set(*flag, take());
  }

  // "hv4": letters of flags without value, then perhaps one with.
  Result<> short_flags(std::string_view letters) {
    while (!letters.empty()) {
      const Flag* flag = find_shorthand(letters[0]);
      const std::string where = std::string("'") + letters[0] + "' in -" + std::string(letters);
      if (flag == nullptr) return fail("unknown shorthand flag: " + where);
      if (letters.size() > 2 && letters[1] == '=') return set(*flag, letters.substr(2));
      letters.remove_prefix(1);
      if (value_is_optional(*flag)) {
        TRY(set(*flag, "true"));
        continue;
      }
      if (!letters.empty()) return set(*flag, letters);
      if (rest_.empty()) return fail("flag needs an argument: " + where);
      return set(*flag, take());
    }
    return {};
  }

  Result<> set(const Flag& flag, std::string_view text) {
    const auto done = set_flag(flag, out_.target, text, out_.was_given(flag.name));
    if (!done) {
      return fail("invalid argument " + base::quote(text) + " for " +
                  base::quote(display_name(flag)) + " flag: " + done.error().text);
    }
    out_.given.insert(flag.name);
    if (!flag.deprecated.empty()) {
      out_.deprecation_notices += "Flag --" + std::string(flag.name) + " has been deprecated, " +
                                  std::string(flag.deprecated) + "\n";
    }
    return {};
  }

  static std::string display_name(const Flag& flag) {
    const std::string name = "--" + std::string(flag.name);
    return flag.shorthand == 0 ? name : std::string("-") + flag.shorthand + ", " + name;
  }

  std::span<const std::string> rest_;
  ParsedFlags& out_;
};

}  // namespace

Result<> parse_flags(std::span<const std::string> args, ParsedFlags& out) {
  return Parser(args, out).run();
}

}  // namespace config
