#include "config/kubeconfig_file.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "codec/document.h"

namespace config::kubeconfig {
namespace {

using base::ErrorCode;
using base::Result;
using codec::Value;

constexpr std::string_view kExecExtension = "client.authentication.k8s.io/exec";

std::unexpected<base::Error> invalid(std::string text) {
  return base::fail(ErrorCode::Invalid, std::move(text));
}

// A parser quotes what it stumbles over; here that may be a part of a secret.
// before: unknown anchor "sekret" referenced    after: unknown anchor "..." referenced
std::string without_quotes(std::string_view text) {
  std::string out;
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      out += inside ? "...\"" : "\"";
      inside = !inside;
    } else if (!inside) {
      out += text[i];
    } else if (text[i] == '\\') {
      ++i;
    }
  }
  return out;
}

// Standard base64 with its padding; line breaks do not count. The error names the first bad byte.
Result<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto bad = [](size_t at) {
    return invalid("illegal base64 data at input byte " + std::to_string(at));
  };
  std::string out;
  uint32_t bits = 0;
  size_t digits = 0;   // of the group of four
  size_t padding = 0;  // behind them
  size_t group = 0;    // where it began
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n' || text[i] == '\r') continue;
    if (digits + padding == 0) group = i;
    const size_t digit = kDigits.find(text[i]);
    const bool pad = text[i] == '=' && digits >= 2 && digits + padding < 4;
    if (!pad && (digit == std::string_view::npos || padding > 0)) return bad(i);
    if (pad) {
      ++padding;
      continue;
    }
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (++digits < 4) continue;
    for (const int shift : {16, 8, 0})
      out += static_cast<char>(bits >> shift & 0xff);
    digits = 0;
  }
  if (digits == 0) return out;
  if (digits + padding != 4) return bad(padding > 0 ? text.size() : group);
  bits <<= 6 * padding;
  for (size_t i = 0; i + 1 < digits; ++i)
    out += static_cast<char>(bits >> (16 - 8 * i) & 0xff);
  return out;
}

// One map of the file, with its name in Go's type errors:
// json: cannot unmarshal number into Go struct field Cluster.clusters.cluster.server of type string
class Map {
 public:
  Map(const Value& value, std::string_view go_type, std::string path)
      : value_(value), go_type_(go_type), path_(std::move(path)) {}

  Result<> get(std::string_view key, std::string& out) const {
    const Value* value = find(key);
    if (value == nullptr) return {};
    if (value->as_string() == nullptr) return wrong(*value, key, "string");
    out = *value->as_string();
    return {};
  }

  Result<> get(std::string_view key, bool& out) const {
    const Value* value = find(key);
    if (value == nullptr) return {};
    if (value->as_bool() == nullptr) return wrong(*value, key, "bool");
    out = *value->as_bool();
    return {};
  }

  Result<> get(std::string_view key, std::vector<std::string>& out) const {
    const Value* value = find(key);
    if (value == nullptr) return {};
    return read_texts(*value, key, out);
  }

  // Its members in the order of the text.
  Result<> get(std::string_view key,
               std::vector<std::pair<std::string, std::vector<std::string>>>& out) const {
    const Value* value = find(key);
    if (value == nullptr) return {};
    if (value->as_object() == nullptr) return wrong(*value, key, "map[string][]string");
    for (const codec::Member& member : *value->as_object()) {
      out.emplace_back(member.name, std::vector<std::string>());
      if (!member.value.is_null()) TRY(read_texts(member.value, key, out.back().second));
    }
    return {};
  }

  Result<> get_base64(std::string_view key, std::string& out) const {
    const Value* value = find(key);
    if (value == nullptr) return {};
    if (value->as_string() == nullptr) return wrong(*value, key, "[]uint8");
    out = TRY(decode_base64(*value->as_string()));
    return {};
  }

  // The map below, if there is one.
  Result<> below(std::string_view key, std::string_view go_type,
                 const std::function<Result<>(const Map&)>& read) const {
    const Value* value = find(key);
    if (value == nullptr) return {};
    if (value->as_object() == nullptr) return wrong(*value, key, "v1." + std::string(go_type));
    return read(Map(*value, go_type, path_of(key)));
  }

  // Each map of the list below.
  Result<> each(std::string_view key, std::string_view go_type,
                const std::function<Result<>(const Map&)>& read) const {
    const Value* list = find(key);
    if (list == nullptr) return {};
    const std::string type = "v1." + std::string(go_type);
    if (list->as_array() == nullptr) return wrong(*list, key, "[]" + type);
    for (const Value& value : *list->as_array()) {
      if (!value.is_null() && value.as_object() == nullptr) return wrong(value, key, type);
      TRY(read(Map(value, go_type, path_of(key))));
    }
    return {};
  }

  // Null counts as absent.
  const Value* find(std::string_view key) const {
    const Value* value = value_.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

 private:
  std::string path_of(std::string_view key) const {
    return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  }

  std::unexpected<base::Error> wrong(const Value& value, std::string_view key,
                                     std::string_view type) const {
    return invalid("json: cannot unmarshal " + std::string(value.kind_name()) +
                   " into Go struct field " + std::string(go_type_) + "." + path_of(key) +
                   " of type " + std::string(type));
  }

  Result<> read_texts(const Value& value, std::string_view key,
                      std::vector<std::string>& out) const {
    if (value.as_array() == nullptr) return wrong(value, key, "[]string");
    for (const Value& item : *value.as_array()) {
      if (!item.is_null() && item.as_string() == nullptr) return wrong(item, key, "string");
      out.push_back(item.is_null() ? "" : *item.as_string());
    }
    return {};
  }

  const Value& value_;
  std::string_view go_type_;
  std::string path_;
};

// Parity: an error, also for entries that nobody uses. The real one prints the whole list behind it,
// secrets and all; we do not.
std::unexpected<base::Error> duplicate(std::string_view go_name, std::string_view go_type,
                                       const std::string& name) {
  return invalid("error converting *[]" + std::string(go_name) + " into *map[string]" +
                 std::string(go_type) + ": duplicate name \"" + name + "\" in list");
}

Result<> read_extensions(const Map& map, Value& exec_config) {
  std::vector<std::string> seen;
  return map.each("extensions", "NamedExtension", [&](const Map& extension) -> Result<> {
    std::string name;
    TRY(extension.get("name", name));
    if (std::ranges::find(seen, name) != seen.end()) {
      return duplicate("NamedExtension", "runtime.Object", name);
    }
    seen.push_back(name);
    const Value* content = extension.find("extension");
    if (name == kExecExtension && content != nullptr) exec_config = *content;
    return {};
  });
}

Result<> read_cluster(const Map& map, Cluster& cluster) {
  TRY(map.get("server", cluster.server));
  TRY(map.get("tls-server-name", cluster.tls_server_name));
  TRY(map.get("insecure-skip-tls-verify", cluster.insecure));
  TRY(map.get("certificate-authority", cluster.ca.file));
  TRY(map.get_base64("certificate-authority-data", cluster.ca.data));
  TRY(map.get("proxy-url", cluster.proxy_url));
  TRY(map.get("disable-compression", cluster.disable_compression));
  return read_extensions(map, cluster.exec_config);
}

// Escape sequences in a hint would reach somebody's terminal: "\e[1m" becomes "U+001B[1m".
std::string for_terminals(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    const bool second_control_set =
        byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (second_control_set) byte = static_cast<unsigned char>(text[++i]);
    const bool control = byte < 0x20 || byte == 0x7f || second_control_set;
    if (!control || (byte >= '\t' && byte <= '\r')) {
      out += static_cast<char>(byte);
    } else {
      out += "U+00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

Result<> read_exec(const Map& map, Exec& exec) {
  ExecPlugin& plugin = exec.plugin;
  TRY(map.get("command", plugin.command));
  TRY(map.get("args", plugin.args));
  const auto read_variable = [&](const Map& variable) -> Result<> {
    auto& [name, value] = plugin.env.emplace_back();
    TRY(variable.get("name", name));
    return variable.get("value", value);
  };
  TRY(map.each("env", "ExecEnvVar", read_variable));
  TRY(map.get("apiVersion", plugin.api_version));
  TRY(map.get("installHint", plugin.install_hint));
  plugin.install_hint = for_terminals(plugin.install_hint);
  TRY(map.get("provideClusterInfo", plugin.provide_cluster_info));
  TRY(map.get("interactiveMode", exec.interactive_mode));
  const bool old = plugin.api_version == "client.authentication.k8s.io/v1beta1" ||
                   plugin.api_version == "client.authentication.k8s.io/v1alpha1";
  if (exec.interactive_mode.empty() && old) exec.interactive_mode = "IfAvailable";
  return {};
}

Result<> read_user(const Map& map, User& user) {
  TRY(map.get("client-certificate", user.cert.file));
  TRY(map.get_base64("client-certificate-data", user.cert.data));
  TRY(map.get("client-key", user.key.file));
  TRY(map.get_base64("client-key-data", user.key.data));
  TRY(map.get("token", user.token));
  TRY(map.get("tokenFile", user.token_file));
  TRY(map.get("as", user.impersonation.user));
  TRY(map.get("as-uid", user.impersonation.uid));
  TRY(map.get("as-groups", user.impersonation.groups));
  TRY(map.get("as-user-extra", user.impersonation.extra));
  TRY(map.get("username", user.username));
  TRY(map.get("password", user.password));
  TRY(map.below("auth-provider", "AuthProviderConfig", [&](const Map& provider) {
    return provider.get("name", user.auth_provider.emplace());
  }));
  return map.below("exec", "ExecConfig",
                   [&](const Map& exec) { return read_exec(exec, user.exec.emplace()); });
}

Result<> read_context(const Map& map, Context& context) {
  TRY(map.get("cluster", context.cluster));
  return map.get("user", context.user);
}

// What a list of named things is called: in the file, and by Go.
struct List {
  std::string_view key;      // "clusters"
  std::string_view item;     // "cluster"
  std::string_view go_type;  // "Cluster"
};

template <typename T>
Result<> read_list(const Map& root, const List& list, Result<> (*read)(const Map&, T&),
                   std::map<std::string, T, std::less<>>& out) {
  const std::string named = "Named" + std::string(list.go_type);
  return root.each(list.key, named, [&](const Map& entry) -> Result<> {
    std::string name;
    T thing;
    TRY(entry.get("name", name));
    TRY(entry.below(list.item, list.go_type, [&](const Map& map) { return read(map, thing); }));
    if (!out.emplace(name, std::move(thing)).second) {
      return duplicate(named, "*api." + std::string(list.go_type), name);
    }
    return {};
  });
}

// Both may be missing.
Result<> check_kind(const Map& root) {
  std::string kind = "Config";
  std::string version = "v1";
  TRY_CONTEXT(root.get("kind", kind), "couldn't get version/kind; json parse error");
  TRY_CONTEXT(root.get("apiVersion", version), "couldn't get version/kind; json parse error");
  if ((kind == "Config" || kind.empty()) && (version == "v1" || version.empty())) return {};
  return invalid("no kind " + base::quote(kind) + " is registered for version " +
                 base::quote(version) + " in scheme \"pkg/runtime/scheme.go:111\"");
}

// The first document; null if there is none.
Result<Value> parse(std::string_view text) {
  std::optional<Value> first;
  const auto parsed = codec::parse_stream(text, [&](Value value) -> Result<> {
    first = std::move(value);
    return invalid("enough");
  });
  if (first) return *std::move(first);
  if (!parsed) return invalid("yaml: " + without_quotes(parsed.error().text));
  return Value();
}

std::string resolved(const std::string& path, const std::filesystem::path& folder) {
  if (path.empty() || path.starts_with('/')) return path;
  return (folder / path).lexically_normal().string();
}

}  // namespace

Result<File> decode(std::string_view text) {
  const Value root = TRY(parse(text));
  if (!root.is_null() && root.as_object() == nullptr) {
    return invalid("couldn't get version/kind; json parse error: json: cannot unmarshal " +
                   std::string(root.kind_name()) + " into an object");
  }
  const Map map(root, "Config", "");
  TRY(check_kind(map));
  File file;
  TRY(read_list(map, {"clusters", "cluster", "Cluster"}, &read_cluster, file.clusters));
  TRY(read_list(map, {"users", "user", "AuthInfo"}, &read_user, file.users));
  TRY(read_list(map, {"contexts", "context", "Context"}, &read_context, file.contexts));
  TRY(map.get("current-context", file.current_context));
  return file;
}

void resolve_paths(File& file, const std::string& folder) {
  const auto resolve = [&](std::string& path) { path = resolved(path, folder); };
  for (auto& [name, cluster] : file.clusters)
    resolve(cluster.ca.file);
  for (auto& [name, user] : file.users) {
    for (std::string* path : {&user.cert.file, &user.key.file, &user.token_file})
      resolve(*path);
    if (user.exec && user.exec->plugin.command.find('/') != std::string::npos) {
      resolve(user.exec->plugin.command);
    }
  }
}

}  // namespace config::kubeconfig
