// Writes objects as the API server does, in both encodings, for tests.
//
// Takes the tree of a manifest. Protobuf has every field that we read and some that we do not; as in Go,
// fields that are no pointers there are written even if they are empty.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "source/api/decode_message.h"
// After decode_message.h, which says what a view is.
#include <protozero/pbf_writer.hpp>

#include "codec/json.h"
#include "codec/value.h"

namespace source::api::encode {

using codec::Value;
using protozero::pbf_writer;

struct Schema;

struct FieldRule {
  enum class As { Text, Number, Bool, Message, TextMap, IntOrString, Time };
  std::string_view name;
  uint32_t number;
  As as = As::Text;
  const Schema* schema = nullptr;
  bool always = false;  // written even if it is not there
};

struct Schema {
  std::vector<FieldRule> fields;
};

using As = FieldRule::As;

inline const Schema kMeta{{
    {"name", 1, As::Text, nullptr, true},
    {"generateName", 2, As::Text, nullptr, true},
    {"namespace", 3, As::Text, nullptr, true},
    {"uid", 5, As::Text, nullptr, true},
    {"resourceVersion", 6, As::Text, nullptr, true},
    {"generation", 7, As::Number, nullptr, true},
    {"creationTimestamp", 8, As::Time},
    {"deletionTimestamp", 9, As::Time},
    {"labels", 11, As::TextMap},
    {"annotations", 12, As::TextMap},
    {"finalizers", 14},
}};

inline const Schema kServicePort{{
    {"name", 1, As::Text, nullptr, true},
    {"protocol", 2, As::Text, nullptr, true},
    {"port", 3, As::Number},
    {"targetPort", 4, As::IntOrString, nullptr, true},
    {"nodePort", 5, As::Number, nullptr, true},
    {"appProtocol", 6},
}};
inline const Schema kClientIp{{{"timeoutSeconds", 1, As::Number}}};
inline const Schema kAffinityConfig{{{"clientIP", 1, As::Message, &kClientIp}}};
inline const Schema kServiceSpec{{
    {"ports", 1, As::Message, &kServicePort},
    {"selector", 2, As::TextMap},
    {"clusterIP", 3, As::Text, nullptr, true},
    {"type", 4, As::Text, nullptr, true},
    {"externalIPs", 5},
    {"sessionAffinity", 7, As::Text, nullptr, true},
    {"loadBalancerIP", 8, As::Text, nullptr, true},
    {"loadBalancerSourceRanges", 9},
    {"externalName", 10, As::Text, nullptr, true},
    {"externalTrafficPolicy", 11, As::Text, nullptr, true},
    {"healthCheckNodePort", 12, As::Number, nullptr, true},
    {"publishNotReadyAddresses", 13, As::Bool, nullptr, true},
    {"sessionAffinityConfig", 14, As::Message, &kAffinityConfig},
    {"ipFamilyPolicy", 17},
    {"clusterIPs", 18},
    {"ipFamilies", 19},
    {"allocateLoadBalancerNodePorts", 20, As::Bool},
    {"internalTrafficPolicy", 22},
    {"trafficDistribution", 23},
}};
inline const Schema kIngress{{
    {"ip", 1, As::Text, nullptr, true},
    {"hostname", 2, As::Text, nullptr, true},
    {"ipMode", 3},
}};
inline const Schema kLoadBalancer{{{"ingress", 1, As::Message, &kIngress}}};
inline const Schema kServiceStatus{{{"loadBalancer", 1, As::Message, &kLoadBalancer, true}}};
inline const Schema kService{{
    {"metadata", 1, As::Message, &kMeta, true},
    {"spec", 2, As::Message, &kServiceSpec, true},
    {"status", 3, As::Message, &kServiceStatus, true},
}};

inline const Schema kConditions{{
    {"ready", 1, As::Bool},
    {"serving", 2, As::Bool},
    {"terminating", 3, As::Bool},
}};
inline const Schema kNamed{{{"name", 1, As::Text, nullptr, true}}};
inline const Schema kHints{{
    {"forZones", 1, As::Message, &kNamed},
    {"forNodes", 2, As::Message, &kNamed},
}};
inline const Schema kReference{{{"kind", 1}, {"namespace", 2}, {"name", 3}, {"uid", 4}}};
inline const Schema kEndpoint{{
    {"addresses", 1},
    {"conditions", 2, As::Message, &kConditions, true},
    {"hostname", 3},
    {"targetRef", 4, As::Message, &kReference},
    {"nodeName", 6},
    {"zone", 7},
    {"hints", 8, As::Message, &kHints},
}};
inline const Schema kEndpointPort{{
    {"name", 1},
    {"protocol", 2},
    {"port", 3, As::Number},
    {"appProtocol", 4},
}};
inline const Schema kSlice{{
    {"metadata", 1, As::Message, &kMeta, true},
    {"endpoints", 2, As::Message, &kEndpoint},
    {"ports", 3, As::Message, &kEndpointPort},
    {"addressType", 4},
}};

inline const Schema kTaint{{
    {"key", 1, As::Text, nullptr, true},
    {"value", 2, As::Text, nullptr, true},
    {"effect", 3, As::Text, nullptr, true},
}};
inline const Schema kNodeSpec{{
    {"podCIDR", 1, As::Text, nullptr, true},
    {"providerID", 3, As::Text, nullptr, true},
    {"unschedulable", 4, As::Bool, nullptr, true},
    {"taints", 5, As::Message, &kTaint},
    {"podCIDRs", 7},
}};
inline const Schema kNodeAddress{{{"type", 1}, {"address", 2}}};
inline const Schema kNodeStatus{{{"addresses", 5, As::Message, &kNodeAddress}}};
inline const Schema kNode{{
    {"metadata", 1, As::Message, &kMeta, true},
    {"spec", 2, As::Message, &kNodeSpec, true},
    {"status", 3, As::Message, &kNodeStatus, true},
}};

inline const Schema kCidrSpec{{{"cidrs", 1}}};
inline const Schema kServiceCidr{{
    {"metadata", 1, As::Message, &kMeta, true},
    {"spec", 2, As::Message, &kCidrSpec, true},
}};

inline const Schema kCause{{{"reason", 1}, {"message", 2}, {"field", 3}}};
inline const Schema kDetails{{
    {"name", 1},
    {"kind", 3},
    {"causes", 4, As::Message, &kCause},
    {"retryAfterSeconds", 5, As::Number, nullptr, true},
}};
inline const Schema kStatus{{
    {"status", 2},
    {"message", 3},
    {"reason", 4},
    {"details", 5, As::Message, &kDetails},
    {"code", 6, As::Number},
}};

inline std::string text_of(const Value& object, std::string_view name) {
  const Value* value = object.find(name);
  return value == nullptr || value->as_string() == nullptr ? "" : *value->as_string();
}

inline const Schema* schema_of(std::string_view kind) {
  if (kind == "Service") return &kService;
  if (kind == "EndpointSlice") return &kSlice;
  if (kind == "Node") return &kNode;
  if (kind == "ServiceCIDR") return &kServiceCidr;
  if (kind == "Status") return &kStatus;
  return nullptr;
}

std::string message(const Value& object, const Schema& schema);

inline void write_map(pbf_writer& out, uint32_t number, const Value& value) {
  if (value.as_object() == nullptr) return;
  for (const auto& member : *value.as_object()) {
    std::string entry;
    pbf_writer writer(entry);
    writer.add_string(1, member.name);
    if (member.value.as_string() != nullptr) writer.add_string(2, *member.value.as_string());
    out.add_message(number, entry);
  }
}

inline void write_int_or_string(pbf_writer& out, uint32_t number, const Value& value) {
  std::string body;
  pbf_writer writer(body);
  const auto* name = value.as_string();
  writer.add_int64(1, name != nullptr ? 1 : 0);
  writer.add_int32(2, value.as_int() != nullptr ? static_cast<int32_t>(*value.as_int()) : 0);
  writer.add_string(3, name != nullptr ? *name : "");
  out.add_message(number, body);
}

inline void write_one(pbf_writer& out, const FieldRule& rule, const Value& value) {
  switch (rule.as) {
    case As::Text:
      if (value.as_string() != nullptr) out.add_string(rule.number, *value.as_string());
      break;
    case As::Number:
      if (value.as_int() != nullptr) out.add_int64(rule.number, *value.as_int());
      break;
    case As::Bool:
      if (value.as_bool() != nullptr) out.add_bool(rule.number, *value.as_bool());
      break;
    case As::Message:
      out.add_message(rule.number, message(value, *rule.schema));
      break;
    case As::TextMap:
      write_map(out, rule.number, value);
      break;
    case As::IntOrString:
      write_int_or_string(out, rule.number, value);
      break;
    case As::Time:
      out.add_message(rule.number, std::string("\x08\x80\xa8\xd6\xb9\x06", 6));  // {seconds: ...}
      break;
  }
}

inline Value empty_value(As as) {
  if (as == As::Text) return Value(std::string());
  if (as == As::Number) return Value(int64_t{0});
  if (as == As::Bool) return Value(false);
  return Value(Value::Object{});
}

// The bare message.
inline std::string message(const Value& object, const Schema& schema) {
  std::string out;
  pbf_writer writer(out);
  for (const FieldRule& rule : schema.fields) {
    const Value* value = object.find(rule.name);
    if (value == nullptr || value->is_null()) {
      if (rule.always) write_one(writer, rule, empty_value(rule.as));
    } else if (const auto* elements = value->as_array()) {
      for (const Value& element : *elements)
        write_one(writer, rule, element);
    } else {
      write_one(writer, rule, *value);
    }
  }
  return out;
}

inline std::string message(const Value& object) {
  return message(object, *schema_of(text_of(object, "kind")));
}

inline std::string envelope(std::string_view api_version, std::string_view kind,
                            std::string_view raw) {
  std::string type_meta;
  pbf_writer types(type_meta);
  types.add_string(1, api_version.data(), api_version.size());
  types.add_string(2, kind.data(), kind.size());
  std::string out("k8s\0", 4);
  pbf_writer writer(out);
  writer.add_message(1, type_meta);
  writer.add_bytes(2, raw.data(), raw.size());
  writer.add_string(3, "");
  writer.add_string(4, "");
  return out;
}

// A whole object in its envelope.
inline std::string object(const Value& value) {
  return envelope(text_of(value, "apiVersion"), text_of(value, "kind"), message(value));
}

// A list of the kind that its items are of; REQUIRES: there is one.
inline std::string list(const std::vector<Value>& items, std::string_view version,
                        std::string_view token = "") {
  std::string meta;
  pbf_writer list_meta(meta);
  list_meta.add_string(1, "");
  list_meta.add_string(2, version.data(), version.size());
  list_meta.add_string(3, token.data(), token.size());
  std::string raw;
  pbf_writer writer(raw);
  writer.add_message(1, meta);
  for (const Value& item : items)
    writer.add_message(2, message(item));
  return envelope(text_of(items.at(0), "apiVersion"), text_of(items.at(0), "kind") + "List", raw);
}

inline std::string framed(std::string_view bytes) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8)
    out += static_cast<char>(bytes.size() >> shift & 0xff);
  return out.append(bytes);
}

// A frame of a watch; `object_bytes` in its envelope.
inline std::string event(std::string_view type, std::string_view object_bytes) {
  std::string extension;
  pbf_writer raw(extension);
  raw.add_bytes(1, object_bytes.data(), object_bytes.size());
  std::string body;
  pbf_writer writer(body);
  writer.add_string(1, type.data(), type.size());
  writer.add_message(2, extension);
  return framed(body);
}

inline std::string event(std::string_view type, const Value& value) {
  return event(type, object(value));
}

inline std::string json(const Value& value) {
  std::string out;
  codec::json::append(out, value);
  return out;
}

inline std::string json_event(std::string_view type, const Value& value) {
  return R"({"type":")" + std::string(type) + R"(","object":)" + json(value) + "}\n";
}

// As the API server writes it: items without apiVersion and kind.
inline std::string json_list(const std::vector<Value>& items, std::string_view version,
                             std::string_view token = "") {
  std::string out = R"({"kind":")" + text_of(items.at(0), "kind") + R"(List","apiVersion":")" +
                    text_of(items.at(0), "apiVersion") + R"(","metadata":{"resourceVersion":")" +
                    std::string(version) + R"(","continue":")" + std::string(token) +
                    R"("},"items":[)";
  for (const Value& item : items) {
    Value bare = item;
    std::erase_if(*bare.as_object(), [](const codec::Member& member) {
      return member.name == "kind" || member.name == "apiVersion";
    });
    out += (&item == &items.front() ? "" : ",") + json(bare);
  }
  return out + "]}\n";
}

}  // namespace source::api::encode
