#include "daemon/kernel_version.h"

#include <gtest/gtest.h>

namespace proxyd {
namespace {

std::string verdict(std::string_view release) {
  const auto checked = check_nftables_kernel(release);
  return checked ? "good" : checked.error().text;
}

TEST(KernelVersion, ModeNftablesNeeds513) {
  for (const auto* good :
       {"5.13", "5.13.0", "5.13.0-1-amd64\n", "5.100.3", "6.0", "6.18.5+", "10.1-rc1"})
    EXPECT_EQ(verdict(good), "good") << good;
  for (const auto* old : {"5.12", "5.12.99-generic", "4.19.0-27-amd64\n", "5.9", "3.10.0"})
    EXPECT_EQ(verdict(old), "kube-proxy in nftables mode requires kernel 5.13 or later") << old;
}

TEST(KernelVersion, WhatIsNoVersionIsSaid) {
  EXPECT_EQ(verdict("linux\n"), "could not check kernel version: \"linux\" is no version");
  EXPECT_EQ(verdict(""), "could not check kernel version: \"\" is no version");
  EXPECT_EQ(verdict("6"), "could not check kernel version: \"6\" is no version");
  EXPECT_EQ(verdict("99999999999999999999.1"),
            "could not check kernel version: \"99999999999999999999.1\" is no version");
}

TEST(KernelVersion, DecidesAboutConnectionReuseInIpvs) {
  EXPECT_EQ(connection_reuse("3.10.0"), ConnectionReuse::NotKnown);
  for (const auto* old : {"4.1.0", "4.19.0-27-amd64\n", "5.8"})
    EXPECT_EQ(connection_reuse(old), ConnectionReuse::Needed) << old;
  for (const auto* good : {"5.9", "6.1.0-28-amd64"})
    EXPECT_EQ(connection_reuse(good), ConnectionReuse::NotNeeded) << good;
  EXPECT_EQ(connection_reuse("linux"), std::nullopt);
}

}  // namespace
}  // namespace proxyd
