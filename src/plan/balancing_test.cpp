#include "plan/balancing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/plan.h"
#include "support/builders.h"

namespace plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::string_view kExample =
    "10.244.1.7=3, 10.244.2.0/24=2, node/worker-3=0, fd00::1=4, fd01::/64=5, *=6";

uint16_t weight(std::string_view text, const char* ip, std::string_view node = "") {
  const auto weights = Weights::parse(text);
  EXPECT_TRUE(weights) << weights.error().text;
  return weights ? weights->of(*net::IpAddr::parse(ip), node) : 0;
}

std::string mistake(std::string_view text) {
  const auto weights = Weights::parse(text);
  return weights ? "none" : weights.error().text;
}

TEST(Weights, AreByAddressNetworkAndNode) {
  EXPECT_EQ(weight(kExample, "10.244.1.7"), 3);
  EXPECT_EQ(weight(kExample, "10.244.2.200", "worker-1"), 2);
  EXPECT_EQ(weight(kExample, "10.244.3.1", "worker-3"), 0);
  EXPECT_EQ(weight(kExample, "fd00::1"), 4);
  EXPECT_EQ(weight(kExample, "fd01::99"), 5);
  EXPECT_EQ(weight(kExample, "10.244.3.1", "worker-1"), 6);
}

TEST(Weights, TheFirstMatchCounts) {
  EXPECT_EQ(weight("node/a=2,10.0.0.1=3", "10.0.0.1", "a"), 2);
  EXPECT_EQ(weight("10.0.0.1=3,node/a=2", "10.0.0.1", "a"), 3);
  EXPECT_EQ(weight("*=1,10.0.0.1=3", "10.0.0.1"), 1);
}

TEST(Weights, AreOneWhereNothingMatches) {
  EXPECT_EQ(weight("10.0.0.1=3", "10.0.0.2"), 1);
  EXPECT_EQ(weight("node/a=3", "10.0.0.2"), 1);
  EXPECT_EQ(weight("0.0.0.0/0=3", "fd00::1"), 1);
}

TEST(Weights, MayHaveSpacesAndGoUpToWhatTheKernelTakes) {
  EXPECT_EQ(weight("\n 10.0.0.1 = 65535 ,\n *=0\n", "10.0.0.1"), 65535);
}

TEST(Weights, WhatIsWrongIsToldWithItsPlace) {
  EXPECT_EQ(mistake("*=1, node/a=70000"), "\"node/a=70000\": a weight is a number from 0 to 65535");
  EXPECT_EQ(mistake("*=-1"), "\"*=-1\": a weight is a number from 0 to 65535");
  EXPECT_EQ(mistake("*="), "\"*=\": a weight is a number from 0 to 65535");
  EXPECT_EQ(mistake("*=1.5"), "\"*=1.5\": a weight is a number from 0 to 65535");
  EXPECT_EQ(mistake("*=1=2"), "\"*=1=2\": a weight is a number from 0 to 65535");
  EXPECT_EQ(mistake("10.0.0.1"), "\"10.0.0.1\": is not of the form WHAT=WEIGHT");
  EXPECT_EQ(mistake("*=1,"), "\"\": is not of the form WHAT=WEIGHT");
  EXPECT_EQ(mistake(" "), "\"\": is not of the form WHAT=WEIGHT");
  EXPECT_EQ(mistake("10.0.0=1"), "\"10.0.0=1\": is not of an address, a network, node/NAME or *");
  EXPECT_EQ(mistake("node/=1"), "\"node/=1\": is not of an address, a network, node/NAME or *");
  EXPECT_EQ(mistake("a\x1b[2Jb=1"),
            "\"a\\x1b[2Jb=1\": is not of an address, a network, node/NAME or *");
}

TEST(Weights, ALongMistakeIsCutBetweenCharacters) {
  EXPECT_EQ(mistake(std::string(1000, 'x')),
            "\"" + std::string(100, 'x') + "\"...: is not of the form WHAT=WEIGHT");
  // Two bytes each, the last of them even and odd.
  for (const std::string letter : {"\u00e4", "\u00e9"}) {
    EXPECT_EQ(mistake(std::string(99, 'x') + letter + letter),
              "\"" + std::string(99, 'x') + "\"...: is not of the form WHAT=WEIGHT");
  }
}

TEST(Weights, AMistakeOfAHundredCharactersIsToldWhole) {
  EXPECT_EQ(mistake(std::string(100, 'x')),
            "\"" + std::string(100, 'x') + "\": is not of the form WHAT=WEIGHT");
}

TEST(Weights, AMistakeWithoutAWholeCharacterIsCutToNothing) {
  EXPECT_EQ(mistake(std::string(101, '\x80')), "\"\"...: is not of the form WHAT=WEIGHT");
}

model::Service annotated(std::string scheduler, std::string weights = "") {
  model::Service service;
  service.ipvs_scheduler = std::move(scheduler);
  service.ipvs_weights = std::move(weights);
  return service;
}

TEST(Balancing, OfAServiceWithoutAnnotationsIsThatOfAll) {
  const auto balancing = balancing_of({});
  EXPECT_EQ(balancing.scheduler, "");
  EXPECT_FALSE(balancing.weights);
  EXPECT_THAT(balancing.problems, IsEmpty());
}

TEST(Balancing, ASchedulerIsAShortWord) {
  for (const auto* name : {"wrr", "mh", "my_own-2", "fifteen-letters", "az09"}) {
    const auto balancing = balancing_of(annotated(name));
    EXPECT_EQ(balancing.scheduler, name);
    EXPECT_THAT(balancing.problems, IsEmpty());
  }
  for (const auto* name : {"RR", "sixteen-letters-", "a b", " rr", "r/r", "r:r", "r`r", "r{r"}) {
    const auto balancing = balancing_of(annotated(name));
    EXPECT_EQ(balancing.scheduler, "");
    EXPECT_THAT(balancing.problems,
                ElementsAre("annotation ipvs.kube-proxy/scheduler: \"" + std::string(name) +
                            "\": a scheduler has 1 to 15 characters of a-z, 0-9, - and _"));
  }
}

TEST(Balancing, WrongWeightsAreNotHeededAtAllAndTheSchedulerStillIs) {
  const auto balancing = balancing_of(annotated("wrr", "*=2, node/a=70000"));
  EXPECT_EQ(balancing.scheduler, "wrr");
  EXPECT_FALSE(balancing.weights);
  EXPECT_THAT(balancing.problems,
              ElementsAre("annotation ipvs.kube-proxy/weights: \"node/a=70000\": a weight is a "
                          "number from 0 to 65535"));
}

// The plan of a Service with two endpoints, on nodes a and b.
ServicePlan compiled(std::string scheduler, std::string weights) {
  auto service = build::service("default/web").cluster_ip("10.96.0.1").port("", 80).value();
  service.ipvs_scheduler = std::move(scheduler);
  service.ipvs_weights = std::move(weights);
  const model::ServiceEntry entry{service.key,
                                  std::make_shared<model::Service>(service),
                                  {build::slice("default/web", "web-1")
                                       .port("", 80)
                                       .ready("10.0.0.1", "a")
                                       .ready("10.0.0.2", "b")
                                       .ptr()}};
  return compile_service(entry, {.family = net::Family::V4, .node_name = "a"});
}

std::vector<uint16_t> weights_of(const ServicePlan& plan) {
  std::vector<uint16_t> weights;
  for (const auto& endpoint : plan.ports.at(0).endpoints)
    weights.push_back(endpoint.weight);
  return weights;
}

TEST(Balancing, IsInThePlan) {
  const auto plan = compiled("wrr", "node/a=5,*=0");
  EXPECT_EQ(plan.scheduler, "wrr");
  EXPECT_THAT(plan.problems, IsEmpty());
  EXPECT_THAT(weights_of(plan), ElementsAre(5, 0));
}

TEST(Balancing, WhatIsWrongIsInThePlanToo) {
  const auto plan = compiled("W", "node/a=5,*=x");
  EXPECT_EQ(plan.scheduler, "");
  EXPECT_EQ(plan.problems.size(), 2U);
  EXPECT_THAT(weights_of(plan), ElementsAre(1, 1));
}

}  // namespace
}  // namespace plan
