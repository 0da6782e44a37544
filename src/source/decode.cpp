#include "source/decode.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "codec/document.h"
#include "source/checks.h"
#include "source/decode_object.h"
#include "source/field.h"

namespace source {

namespace {

struct Kind {
  std::string_view api_version;
  std::string_view name;
  bool namespaced = false;
  bool label_name = false;  // named by a DNS label, others by a DNS subdomain
  std::optional<Object> (*decode)(const Field& root, const model::ServiceKey& key) = nullptr;
};

std::optional<Object> service(const Field& root, const model::ServiceKey& key) {
  return decode_service(root, key);
}
std::optional<Object> endpoints(const Field& root, const model::ServiceKey& key) {
  return decode_endpoints(root, key);
}
std::optional<Object> slice(const Field& root, const model::ServiceKey& key) {
  return decode_slice(root, key.ns, key.name);
}
std::optional<Object> node(const Field& root, const model::ServiceKey& key) {
  return decode_node(root, key.name);
}
std::optional<Object> service_cidr(const Field& root, const model::ServiceKey& key) {
  return decode_service_cidr(root, key.name);
}

constexpr std::array kKinds{
    Kind{"v1", "Service", true, true, service},
    Kind{"v1", "Endpoints", true, true, endpoints},
    Kind{"v1", "Node", false, false, node},
    Kind{"discovery.k8s.io/v1", "EndpointSlice", true, false, slice},
    Kind{"networking.k8s.io/v1", "ServiceCIDR", false, false, service_cidr},
    Kind{"networking.k8s.io/v1beta1", "ServiceCIDR", false, false, service_cidr},
};

const Kind* find_kind(std::string_view api_version, std::string_view name) {
  const auto* found = std::ranges::find_if(kKinds, [&](const Kind& kind) {
    return kind.api_version == api_version && kind.name == name;
  });
  return found == kKinds.end() ? nullptr : found;
}

// The text as it is if it is short and plain, otherwise quoted: messages end up in logs.
std::string printable(const std::string& text) {
  constexpr size_t kMost = 253;
  const bool plain = std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
  return plain && text.size() <= kMost ? text : base::quote(std::string_view(text).substr(0, 80));
}

// "Service default/web", for messages; whatever of it is there.
std::string describe(const codec::Value& value, std::string_view kind) {
  std::string out(kind);
  const codec::Value* metadata = value.find("metadata");
  if (metadata == nullptr) return out;
  const codec::Value* ns = metadata->find("namespace");
  const codec::Value* name = metadata->find("name");
  if (name == nullptr || name->as_string() == nullptr) return out;
  out += ' ';
  if (ns != nullptr && ns->as_string() != nullptr) out += printable(*ns->as_string()) + "/";
  return out + printable(*name->as_string());
}

// What an element of a typed list inherits: kubectl's ServiceList has items without a kind.
struct Inherited {
  std::string_view api_version;
  std::string_view kind;
};

class Decoder {
 public:
  explicit Decoder(Decoded& out) : out_(out), problems_(out.problems) {}

  void document(const codec::Value& value, const Inherited& inherited, const std::string& path) {
    problems_.begin_object("");
    const Field root(value, problems_, path);
    if (!root.is_object()) return;
    const auto kind = type_field(root, "kind", inherited.kind);
    const auto api_version = type_field(root, "apiVersion", inherited.api_version);
    if (!kind || !api_version) return;
    if (const Kind* known = find_kind(*api_version, *kind)) {
      object(value, *known, path);
    } else if (kind->ends_with("List") && value.find("items") != nullptr) {
      list(root, *api_version, *kind, path);
    } else {
      skip(*api_version, *kind);
    }
  }

 private:
  static std::optional<std::string_view> type_field(const Field& root, std::string_view name,
                                                    std::string_view inherited) {
    const Field field = root[name];
    const auto text = field.text();
    if (text && !text->empty()) return text;
    if (!field.present() && !inherited.empty()) return inherited;
    if (!field.present() || text) field.error("is missing");
    return std::nullopt;
  }

  void list(const Field& root, std::string_view api_version, std::string_view kind,
            const std::string& path) {
    if (std::ranges::count(*root.value().as_object(), "items", &codec::Member::name) > 1) {
      root["items"].error("key \"items\" already set in map");
      return;
    }
    Inherited inherited;
    if (kind != "List") inherited = {api_version, kind.substr(0, kind.size() - 4)};
    const Field items = root["items"];
    const std::string prefix = path.empty() ? "items[" : path + ".items[";
    size_t index = 0;
    items.each([&](const Field& item) {
      document(item.value(), inherited, prefix + std::to_string(index++) + "]");
    });
  }

  void object(const codec::Value& value, const Kind& kind, const std::string& path) {
    problems_.begin_object(describe(value, kind.name));
    for (const auto& key : codec::repeated_keys(value)) {
      problems_.add(key.at, path, "key " + base::quote(key.name) + " already set in map", true);
    }
    const Field root(value, problems_, path);
    const Field metadata = root.object("metadata");
    const Field name_field = metadata["name"];
    const auto name = kind.label_name ? dns_label(name_field) : dns_subdomain(name_field);
    if (!name) {
      if (!name_field.present()) name_field.error("is missing");
      return;
    }
    const std::string ns = kind.namespaced ? namespace_of(metadata) : "";
    auto decoded = kind.decode(root, {ns, std::string(*name)});
    if (!decoded || problems_.fatal()) return;
    decoded->at = value.at;
    out_.objects.push_back(*std::move(decoded));
  }

  static std::string namespace_of(const Field& metadata) {
    const Field field = metadata["namespace"];
    if (const auto text = field.text(); text && text->empty()) return "default";
    return std::string(dns_label(field).value_or("default"));
  }

  void skip(std::string_view api_version, std::string_view kind) {
    constexpr size_t kMost = 20;
    std::string text = printable(std::string(api_version) + " " + std::string(kind));
    auto& skipped = out_.skipped_kinds;
    if (skipped.size() < kMost && std::ranges::find(skipped, text) == skipped.end()) {
      skipped.push_back(std::move(text));
    }
  }

  Decoded& out_;
  Problems problems_;
};

}  // namespace

void decode(const codec::Value& document, Decoded& out) { Decoder(out).document(document, {}, ""); }

}  // namespace source
