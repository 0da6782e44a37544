// How packets from pods of this node are recognised.
#pragma once

#include <string>

#include "net/ip.h"

namespace plan {

struct LocalTraffic {
  enum class By : uint8_t { Nothing, Source, Interface, InterfacePrefix };
  By by = By::Nothing;
  net::Cidr cidr;         // By::Source
  std::string interface;  // its name, or the beginning of its name
};

}  // namespace plan
