// How a Service wants its connections to be spread in mode ipvs: what its annotations say. Pure.
//
//   ipvs.kube-proxy/scheduler: wrr
//   ipvs.kube-proxy/weights: "10.244.1.7=3, 10.244.2.0/24=2, node/worker-3=0, *=1"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/objects.h"
#include "net/ip.h"

namespace plan {

// The weights of endpoints among each other.
class Weights {
 public:
  // One or more WHAT=WEIGHT with commas between them. WHAT is an address, a network, node/NAME or * for every endpoint;
  // WEIGHT is a number from 0 (no new connections) to 65535.
  static base::Result<Weights> parse(std::string_view text);

  // By the first that matches; 1 if none does. `node` may be empty: bound to none.
  uint16_t of(const net::IpAddr& ip, std::string_view node) const;

 private:
  // Of every endpoint, unless it says of which.
  struct Rule {
    std::optional<net::Cidr> network;
    std::string node;
    uint16_t weight = 1;

    bool matches(const net::IpAddr& ip, std::string_view of_node) const;
  };
  static base::Result<Rule> parse_rule(std::string_view text);
  static base::Result<Rule> parse_target(std::string_view text);

  std::vector<Rule> rules_;
};

struct Balancing {
  std::string
      scheduler;  // well-formed; whether the kernel has it is another matter. Empty: that of all
  std::optional<Weights> weights;
  // A line for each annotation that is not understood, and for that reason not heeded.
  std::vector<std::string> problems;
};
Balancing balancing_of(const model::Service& service);

}  // namespace plan
