#include "config/gates.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace config {
namespace {

std::string error_of(const GateMap& set) {
  const auto checked = check_gates(set);
  return checked ? "" : checked.error().text;
}

TEST(Gates, EachNameStandsOnceInTheTable) {
  const auto gates = known_gates();
  EXPECT_EQ(std::ranges::adjacent_find(gates, {}, &Gate::name), gates.end());
  EXPECT_EQ(gates.size(), 242U);
}

TEST(Gates, HaveTheirDefaultsOfTheRelease) {
  EXPECT_TRUE(gate_enabled(GateMap{}, "WatchListClient"));
  EXPECT_TRUE(gate_enabled(GateMap{}, "AllowServiceExternalIPs"));
  EXPECT_TRUE(gate_enabled(GateMap{}, "NFTablesProxyMode"));
  EXPECT_TRUE(gate_enabled(GateMap{}, "LoggingBetaOptions"));
  EXPECT_FALSE(gate_enabled(GateMap{}, "LoggingAlphaOptions"));
  EXPECT_FALSE(gate_enabled(GateMap{}, "AllBeta"));
  EXPECT_FALSE(gate_enabled(GateMap{}, "KMSv1"));
  EXPECT_FALSE(gate_enabled(GateMap{}, "NoSuchGate"));
}

TEST(Gates, TheConfigurationDecides) {
  Config config;
  EXPECT_TRUE(gate_enabled(config, "AllowServiceExternalIPs"));
  config.feature_gates["AllowServiceExternalIPs"] = false;
  EXPECT_FALSE(gate_enabled(config, "AllowServiceExternalIPs"));
}

TEST(Gates, AllAlphaAndAllBetaSetWhatIsNotSetByName) {
  EXPECT_TRUE(gate_enabled(GateMap{{"AllAlpha", true}}, "NativeHistograms"));
  EXPECT_FALSE(
      gate_enabled(GateMap{{"AllAlpha", true}, {"NativeHistograms", false}}, "NativeHistograms"));
  EXPECT_FALSE(gate_enabled(GateMap{{"AllBeta", false}}, "ComponentFlagz"));
  EXPECT_TRUE(gate_enabled(GateMap{{"AllBeta", false}}, "NFTablesProxyMode"));
  EXPECT_TRUE(gate_enabled(GateMap{{"AllBeta", true}}, "SELinuxMount"));
}

TEST(Gates, UnknownNamesAreRefused) {
  EXPECT_EQ(error_of({{"Foo", true}}), "unrecognized feature gate: Foo");
  EXPECT_EQ(error_of({{"Bar", true}, {"Foo", true}}),
            "[unrecognized feature gate: Bar, unrecognized feature gate: Foo]");
}

TEST(Gates, LockedGatesCanOnlyBeSetToTheirDefault) {
  EXPECT_EQ(error_of({{"NFTablesProxyMode", true}}), "");
  EXPECT_EQ(error_of({{"NFTablesProxyMode", false}}),
            "cannot set feature gate NFTablesProxyMode to false, feature is locked to true");
  EXPECT_EQ(error_of({{"GitRepoVolumeDriver", true}}),
            "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false");
}

TEST(Gates, AGateNeedsTheGatesItDependsOn) {
  EXPECT_EQ(error_of({}), "");
  EXPECT_EQ(error_of({{"APIServerIdentity", false}}),
            "UnknownVersionInteroperabilityProxy is enabled, but depends on features that are "
            "disabled: [APIServerIdentity]");
  EXPECT_EQ(error_of({{"GangScheduling", true}}),
            "GangScheduling is enabled, but depends on features that are disabled: "
            "[GenericWorkload]");
  EXPECT_EQ(error_of({{"GangScheduling", true}, {"GenericWorkload", true}}), "");
  EXPECT_EQ(error_of({{"ContainerRestartRules", false},
                      {"NodeDeclaredFeatures", false},
                      {"ExtendWebSocketsToKubelet", false}}),
            "RestartAllContainersOnContainerExits is enabled, but depends on features that are "
            "disabled: [ContainerRestartRules NodeDeclaredFeatures]");
  EXPECT_EQ(error_of({{"AllAlpha", true}}), "");
}

TEST(Gates, OutgoingOnesAreThoseOfStageGaOrDeprecated) {
  const auto outgoing = outgoing_gates(
      {{"AllowServiceExternalIPs", true}, {"ComponentFlagz", false}, {"KMSv1", true}});
  ASSERT_EQ(outgoing.size(), 2U);
  EXPECT_EQ(outgoing[0]->name, "AllowServiceExternalIPs");
  EXPECT_EQ(outgoing[1]->name, "KMSv1");
}

}  // namespace
}  // namespace config
