#include "plan/balancing.h"

#include <algorithm>

#include "base/text.h"
#include "plan/annotation.h"

namespace plan {
namespace {

using base::ErrorCode;
using base::Result;

// The kernel's limit, without the NUL at the end.
constexpr size_t kMaxScheduler = 15;

constexpr std::string_view kNodePrefix = "node/";

std::unexpected<base::Error> wrong(std::string_view text, std::string_view what) {
  return base::fail(ErrorCode::Invalid, shown(text) + ": " + std::string(what));
}

bool is_scheduler(std::string_view name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !name.empty() && name.size() <= kMaxScheduler && std::ranges::all_of(name, good);
}

}  // namespace

bool Weights::Rule::matches(const net::IpAddr& ip, std::string_view of_node) const {
  if (network) return network->contains(ip);
  return node.empty() || node == of_node;
}

Result<Weights::Rule> Weights::parse_target(std::string_view text) {
  if (text == "*") return Rule{};
  if (text.starts_with(kNodePrefix) && text.size() > kNodePrefix.size())
    return Rule{.network = {}, .node = std::string(text.substr(kNodePrefix.size()))};
  if (const auto ip = net::IpAddr::parse(text))
    return Rule{.network = net::Cidr::host(*ip), .node = {}};
  if (const auto network = net::Cidr::parse(text)) return Rule{.network = *network, .node = {}};
  return base::fail(ErrorCode::Invalid, "is not of an address, a network, node/NAME or *");
}

Result<Weights::Rule> Weights::parse_rule(std::string_view text) {
  const size_t sign = text.find('=');
  if (sign == std::string_view::npos) return wrong(text, "is not of the form WHAT=WEIGHT");
  auto rule = parse_target(base::trim(text.substr(0, sign)));
  if (!rule) return wrong(text, rule.error().text);
  const auto weight = base::parse_number<uint16_t>(base::trim(text.substr(sign + 1)));
  if (!weight) return wrong(text, "a weight is a number from 0 to 65535");
  rule->weight = *weight;
  return rule;
}

Result<Weights> Weights::parse(std::string_view text) {
  Weights weights;
  for (const std::string_view piece : base::split(text, ','))
    weights.rules_.push_back(TRY(parse_rule(base::trim(piece))));
  return weights;
}

uint16_t Weights::of(const net::IpAddr& ip, std::string_view node) const {
  const auto found =
      std::ranges::find_if(rules_, [&](const Rule& rule) { return rule.matches(ip, node); });
  return found == rules_.end() ? 1 : found->weight;
}

Balancing balancing_of(const model::Service& service) {
  Balancing balancing;
  if (const std::string_view scheduler = service.ipvs_scheduler; is_scheduler(scheduler)) {
    balancing.scheduler = scheduler;
  } else if (!scheduler.empty()) {
    balancing.problems.push_back(annotation_problem(
        model::kIpvsSchedulerAnnotation,
        shown(scheduler) + ": a scheduler has 1 to 15 characters of a-z, 0-9, - and _"));
  }
  if (service.ipvs_weights.empty()) return balancing;
  if (auto weights = Weights::parse(service.ipvs_weights)) {
    balancing.weights = std::move(*weights);
  } else {
    balancing.problems.push_back(
        annotation_problem(model::kIpvsWeightsAnnotation, weights.error().text));
  }
  return balancing;
}

}  // namespace plan
