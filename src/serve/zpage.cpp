#include "serve/zpage.h"

#include <utility>

#include "codec/json.h"
#include "codec/yaml_write.h"
#include "serve/accept.h"

namespace serve {
namespace {

using codec::Value;
using http::Answer;

constexpr std::string_view kGroup = "config.k8s.io";
constexpr std::string_view kVersion = "v1beta1";
constexpr std::string_view kOldVersion = "v1alpha1";
constexpr const char* kWarning =
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility "
    "guarantees and is for debugging purposes only.\n";

Value text(std::string_view value) { return Value(std::string(value)); }

bool is_text(const Accepted& accepted) {
  return accepted.type == "text/plain" || accepted.type == "*/*";
}

bool is_object(const Accepted& accepted, const ZPage& page) {
  const std::string_view version = accepted.parameter("v");
  return (accepted.type == "application/json" || accepted.type == "application/yaml") &&
         accepted.parameter("g") == kGroup && accepted.parameter("as") == page.kind &&
         (version == kVersion || version == kOldVersion);
}

Answer show_text(const ZPage& page) {
  return {.headers = {{"Content-Type", "text/plain; charset=utf-8"}},
          .body = "\nkube-proxy " + page.name + "\n" + kWarning + page.text};
}

Value object_of(const ZPage& page, std::string_view version) {
  Value::Object metadata;
  metadata.push_back({"name", {}, text("kube-proxy")});
  Value::Object object;
  object.push_back({"kind", {}, text(page.kind)});
  object.push_back({"apiVersion", {}, Value(std::string(kGroup) + "/" + std::string(version))});
  object.push_back({"metadata", {}, Value(std::move(metadata))});
  object.insert(object.end(), page.fields.begin(), page.fields.end());
  return Value(std::move(object));
}

Answer show_object(const ZPage& page, const Accepted& as) {
  const std::string version(as.parameter("v"));
  const Value object = object_of(page, version);
  Answer answer{.headers = {{"Content-Type", as.type + ";g=" + std::string(kGroup) +
                                                 ";v=" + version + ";as=" + page.kind}}};
  if (version == kOldVersion) {
    answer.headers.emplace_back("Warning", "299 - \"This version of the " + page.name +
                                               " endpoint is deprecated. Please use a newer "
                                               "version.\"");
  }
  if (as.type == "application/yaml") {
    codec::yaml::append(answer.body, object);
  } else {
    codec::json::append(answer.body, object);
    answer.body += '\n';
  }
  return answer;
}

Answer not_acceptable() {
  return {.status = 406,
          .headers = {{"Content-Type", "application/json"}},
          .body = R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",)"
                  R"("message":"only the following media types are accepted: application/json, )"
                  R"(application/yaml, text/plain","reason":"NotAcceptable","code":406})"
                  "\n"};
}

}  // namespace

Answer show_zpage(const ZPage& page, const std::string& accept) {
  if (accept.empty()) return show_text(page);
  for (const Accepted& accepted : parse_accept(accept)) {
    if (is_text(accepted)) return show_text(page);
    if (is_object(accepted, page)) return show_object(page, accepted);
  }
  return not_acceptable();
}

}  // namespace serve
