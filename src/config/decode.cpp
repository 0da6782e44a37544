#include "config/decode.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/text.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "config/go_duration.h"
#include "config/go_value.h"
#include "config/schema.h"

namespace config::file {
namespace {

using base::ErrorCode;
using base::Result;
using codec::Member;
using codec::Value;

enum class Syntax { Yaml, Json };

std::string number_text(const Value& value) {
  std::string out;
  codec::json::append(out, value);
  return out;
}

// Reads one document into the structs that the schema describes.
//
// Stops at the first value of a wrong type; collects what is merely unknown.
class Reader {
 public:
  explicit Reader(Syntax syntax) : syntax_(syntax) {}

  Result<> read_root(const Value& value, Document& out) { return read_struct(value, out); }
  std::vector<std::string> take_strict_errors() { return std::move(strict_errors_); }

 private:
  // As Go says it: json: cannot unmarshal string into Go struct field
  // KubeProxyConfiguration.oomScoreAdj of type int32
  std::unexpected<base::Error> wrong_type(std::string_view what, std::string_view go_type) const {
    return base::fail(ErrorCode::Invalid, "json: cannot unmarshal " + std::string(what) +
                                              " into Go struct field " + std::string(kKind) + "." +
                                              field_path_ + " of type " + std::string(go_type));
  }
  // Types that read themselves in Go do not know which field they are in.
  static std::unexpected<base::Error> wrong_value(const Value& value, std::string_view go_type) {
    return base::fail(ErrorCode::Invalid, "json: cannot unmarshal " +
                                              std::string(value.kind_name()) +
                                              " into Go value of type " + std::string(go_type));
  }

  Result<> read(const Value& value, bool& out, std::string_view) {
    const bool* flag = value.as_bool();
    if (flag == nullptr) return wrong_type(value.kind_name(), "bool");
    out = *flag;
    return {};
  }

  Result<> read(const Value& value, std::string& out, std::string_view go_type) {
    const std::string* text = value.as_string();
    if (text == nullptr) {
      return wrong_type(value.kind_name(), go_type.empty() ? "string" : go_type);
    }
    out = *text;
    return {};
  }

  template <std::integral T>
  Result<> read_integer(const Value& value, T& out, std::string_view go_type) {
    if (!value.is_number()) return wrong_type(value.kind_name(), go_type);
    const int64_t* whole = value.as_int();
    const double* real = value.as_double();
    // YAML's 5.0 is 5 by the time Go sees it.
    constexpr double kExact = 1e15;
    const bool whole_real = real != nullptr && std::trunc(*real) == *real &&
                            std::fabs(*real) < kExact && syntax_ == Syntax::Yaml;
    if (whole == nullptr && !whole_real) return wrong_type("number " + number_text(value), go_type);
    const int64_t number = whole != nullptr ? *whole : static_cast<int64_t>(*real);
    if (number < std::numeric_limits<T>::min() || number > std::numeric_limits<T>::max()) {
      return wrong_type("number " + number_text(value), go_type);
    }
    out = static_cast<T>(number);
    return {};
  }
  Result<> read(const Value& value, int32_t& out, std::string_view) {
    return read_integer(value, out, "int32");
  }
  Result<> read(const Value& value, uint32_t& out, std::string_view go_type) {
    return read_integer(value, out, go_type.empty() ? "uint32" : go_type);
  }

  Result<> read(const Value& value, float& out, std::string_view) {
    if (!value.is_number()) return wrong_type(value.kind_name(), "float32");
    const double number =
        value.as_int() != nullptr ? static_cast<double>(*value.as_int()) : *value.as_double();
    if (std::fabs(number) > std::numeric_limits<float>::max()) {
      return wrong_type("number " + number_text(value), "float32");
    }
    out = static_cast<float>(number);
    return {};
  }

  Result<> read(const Value& value, Duration& out, std::string_view) {
    const std::string* text = value.as_string();
    if (text == nullptr) return wrong_value(value, "string");
    out = TRY(parse_go_duration(*text));
    return {};
  }

  Result<> read(const Value& value, FlexibleDuration& out, std::string_view) {
    if (value.as_string() != nullptr) return read(value, out.value, {});
    if (value.as_int() == nullptr) return wrong_value(value, "time.Duration");
    out.value = Duration(*value.as_int());
    return {};
  }

  Result<> read(const Value& value, Quantity& out, std::string_view) {
    const std::string* text = value.as_string();
    out.text = TRY(parse_quantity(text != nullptr ? *text : number_text(value)));
    return {};
  }

  Result<> read(const Value& value, std::map<std::string, bool>& out, std::string_view go_type) {
    const auto* members = value.as_object();
    if (members == nullptr) return wrong_type(value.kind_name(), go_type);
    for (const Member& member : *members) {
      if (!member.value.is_null()) TRY(read(member.value, out[member.name], {}));
    }
    return {};
  }

  template <typename T>
  Result<> read(const Value& value, std::vector<T>& out, std::string_view go_type) {
    const auto* elements = value.as_array();
    if (elements == nullptr) {
      return wrong_type(value.kind_name(), go_type.empty() ? "[]string" : go_type);
    }
    const std::string strict_path = strict_path_;
    for (size_t i = 0; i < elements->size(); ++i) {
      strict_path_ = strict_path + "[" + std::to_string(i) + "]";
      out.emplace_back();
      if (!(*elements)[i].is_null()) TRY(read((*elements)[i], out.back(), {}));
    }
    strict_path_ = strict_path;
    return {};
  }

  template <typename T>
  Result<> read(const Value& value, std::optional<T>& out, std::string_view go_type) {
    return read(value, out.emplace(), go_type);
  }

  template <Described T>
  Result<> read(const Value& value, T& out, std::string_view go_type) {
    if (value.as_object() == nullptr) {
      return wrong_type(value.kind_name(), go_type.empty() ? "v1.VModuleItem" : go_type);
    }
    return read_struct(value, out);
  }

  template <Described T>
  Result<> read_struct(const Value& value, T& out) {
    std::set<std::string_view> seen;
    for (const Member* member : in_reading_order(*value.as_object())) {
      TRY(read_member(*member, out, !seen.insert(member->name).second));
    }
    return {};
  }

  // Parity: YAML reaches Go's decoder as JSON with sorted keys, the last of equal ones only.
  std::vector<const Member*> in_reading_order(const Value::Object& members) const {
    std::vector<const Member*> order;
    for (const Member& member : members)
      order.push_back(&member);
    if (syntax_ == Syntax::Json) return order;
    std::ranges::stable_sort(order, {}, [](const Member* member) { return member->name; });
    std::vector<const Member*> last;
    for (const Member* member : order) {
      if (!last.empty() && last.back()->name == member->name) last.pop_back();
      last.push_back(member);
    }
    return last;
  }

  template <Described T>
  Result<> read_member(const Member& member, T& out, bool repeated) {
    const std::string strict_path = strict_path_;
    const std::string field_path = field_path_;
    strict_path_ += (strict_path_.empty() ? "" : ".") + member.name;
    field_path_ += (field_path_.empty() ? "" : ".") + member.name;
    if (repeated) strict_errors_.push_back("duplicate field " + base::quote(strict_path_));
    TRY(read_named(member, out));
    strict_path_ = strict_path;
    field_path_ = field_path;
    return {};
  }

  // null is the same as absent.
  template <Described T>
  Result<> read_named(const Member& member, T& out) {
    Result<> result;
    const auto try_field = [&](const auto& field) {
      if (field.key != member.name) return false;
      if (!member.value.is_null()) {
        result = read(member.value, out.*field.member, field.go_type);
      }
      return true;
    };
    const bool known =
        std::apply([&](const auto&... field) { return (try_field(field) || ...); }, fields_of(out));
    if (!known) strict_errors_.push_back("unknown field " + base::quote(strict_path_));
    return result;
  }

  Syntax syntax_;
  std::string field_path_;   // as Go's type errors have it: without list indices
  std::string strict_path_;  // as its strict errors have it: with them
  std::vector<std::string> strict_errors_;
};

Result<Value> parse(std::string_view text, Syntax syntax) {
  if (syntax == Syntax::Json) {
    return TRY_CONTEXT(codec::json::parse(text), "couldn't get version/kind; json parse error");
  }
  return TRY_CONTEXT(codec::yaml::parse(text), "error converting YAML to JSON: yaml");
}

// The text of a member of the root, "" if it is not there.
Result<std::string> meta_text(const Value& root, std::string_view key) {
  const Value* value = root.find(key);
  if (value == nullptr || value->is_null()) return std::string();
  if (value->as_string() != nullptr) return *value->as_string();
  return base::fail(ErrorCode::Invalid,
                    "couldn't get version/kind; json parse error: json: cannot unmarshal " +
                        std::string(value->kind_name()) + " into Go struct field ." +
                        std::string(key) + " of type string");
}

Result<> check_kind(const Value& root, std::string_view text) {
  if (!root.is_null() && root.as_object() == nullptr) {
    return base::fail(ErrorCode::Invalid,
                      "couldn't get version/kind; json parse error: json: cannot unmarshal " +
                          std::string(root.kind_name()) + " into an object");
  }
  const std::string kind = TRY(meta_text(root, "kind"));
  const std::string version = TRY(meta_text(root, "apiVersion"));
  const std::string where = " is missing in '" + std::string(text) + "'";
  if (kind.empty()) return base::fail(ErrorCode::Invalid, "Object 'Kind'" + where);
  if (version.empty()) return base::fail(ErrorCode::Invalid, "Object 'apiVersion'" + where);
  if (kind == kKind && version == kApiVersion) return {};
  return base::fail(ErrorCode::Invalid, "no kind " + base::quote(kind) +
                                            " is registered for version " + base::quote(version) +
                                            " in scheme \"kube-proxy configuration\"");
}

// One error for all repeated keys of a YAML text, as its Go library has it.
std::vector<std::string> yaml_strict_errors(const Value& root) {
  const std::vector<std::string> repeated = codec::yaml::duplicate_keys(root);
  if (repeated.empty()) return {};
  return {"yaml: unmarshal errors:\n  " + base::join(repeated, "\n  ")};
}

}  // namespace

Result<Decoded> decode(std::string_view text) {
  const Syntax syntax = base::trim(text).starts_with('{') ? Syntax::Json : Syntax::Yaml;
  const Value root = TRY(parse(text, syntax));
  TRY(check_kind(root, text));
  Reader reader(syntax);
  Decoded decoded;
  TRY(reader.read_root(root, decoded.document));
  if (syntax == Syntax::Yaml) decoded.strict_errors = yaml_strict_errors(root);
  std::ranges::move(reader.take_strict_errors(), std::back_inserter(decoded.strict_errors));
  return decoded;
}

}  // namespace config::file
