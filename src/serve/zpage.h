// A page that shows what a component is: text for people, and an object of config.k8s.io for whoever
// asks for it with "Accept: application/json;v=v1beta1;g=config.k8s.io;as=Flagz" (or yaml).
#pragma once

#include <string>

#include "codec/value.h"
#include "http/server_message.h"

namespace serve {

struct ZPage {
  std::string name;             // "flagz"
  std::string kind;             // "Flagz"
  std::string text;             // below the heading
  codec::Value::Object fields;  // of the object, behind kind, apiVersion and metadata
};

// The best form that the client accepts and we have; 406 if there is none.
http::Answer show_zpage(const ZPage& page, const std::string& accept);

}  // namespace serve
