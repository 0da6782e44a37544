#include "backend/iptables/cleanup.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/iptables/tables.h"

namespace iptables {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string recording(const std::string& scenario, const std::string& file) {
  std::stringstream text;
  text << std::ifstream("tests/recordings/" + scenario + "/" + file).rdbuf();
  return text.str();
}

// Removes ours from all tables; returns the rules that were in the way.
std::vector<std::string> clean(Tables& tables, const Owned& what = owned()) {
  std::vector<std::string> in_the_way;
  const std::string dump = tables.save();
  for (const Table table : kTables) {
    const size_t begin = dump.find("*" + std::string(name(table)) + "\n");
    const Removal removal = diff_removal(
        table, std::string_view(dump).substr(begin, dump.find("COMMIT", begin) - begin), what);
    const auto applied = tables.apply(removal.transaction.str());
    EXPECT_TRUE(applied) << applied.error().text;
    in_the_way.insert(in_the_way.end(), removal.in_the_way.begin(), removal.in_the_way.end());
  }
  return in_the_way;
}

Tables with(const std::string& restore_text) {
  Tables tables = Tables::empty();
  const auto applied = tables.apply(restore_text);
  EXPECT_TRUE(applied) << applied.error().text;
  return tables;
}

const std::string kFirewall =
    "*filter\n:KUBE-FIREWALL - [0:0]\n"
    "-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "
    "\"block incoming localnet connections\" "
    "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP\n"
    "-I INPUT -j KUBE-FIREWALL\n-I OUTPUT -j KUBE-FIREWALL\nCOMMIT\n";

TEST(IptablesCleanup, OfModeIptablesOnlyTheKubeletsShareStays) {
  Tables tables = Tables::parse_save(recording("seed-yaobank", "iptables.txt"));
  EXPECT_THAT(clean(tables), IsEmpty());
  EXPECT_EQ(tables.save(), with(kFirewall).save());
}

// A chain of another mode, with the jump to it.
Owned other_mode() {
  static const std::vector<Jump> kJumps{{.table = Table::Nat,
                                         .from = "OUTPUT",
                                         .target = "KUBE-OTHER",
                                         .match = "",
                                         .removed_by_cleanup = true}};
  return owned({{.table = Table::Nat, .name = "KUBE-OTHER", .rules = ""}}, kJumps);
}
const std::string kOther =
    "*nat\n:KUBE-OTHER - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n-A OUTPUT -j KUBE-OTHER\n"
    "-A KUBE-OTHER -j KUBE-MARK-MASQ\nCOMMIT\n";

TEST(IptablesCleanup, AnotherModeGoesAloneOrTogetherWithThisOne) {
  Tables alone = with(kOther);
  EXPECT_THAT(clean(alone, other_mode()), IsEmpty());
  EXPECT_EQ(alone.save(), with("*nat\n:KUBE-MARK-MASQ - [0:0]\nCOMMIT\n").save());
  Tables together = with(kOther);
  EXPECT_THAT(clean(together, both(owned(), other_mode())), IsEmpty());
  EXPECT_EQ(together, Tables::empty());
}

TEST(IptablesCleanup, WhatAnotherModeUsesIsEmptiedOnly) {
  Tables tables = with(kOther);
  EXPECT_THAT(clean(tables), ElementsAre("-A KUBE-OTHER -j KUBE-MARK-MASQ"));
}

TEST(IptablesCleanup, AJumpThatIsThereTwiceGoesTwice) {
  const std::string twice =
      "*filter\n:KUBE-FORWARD - [0:0]\n"
      "-A FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\n"
      "-A FORWARD -j ACCEPT\n"
      "-A FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\nCOMMIT\n";
  Tables tables = with(twice);
  EXPECT_THAT(clean(tables), IsEmpty());
  EXPECT_EQ(tables.save(), with("*filter\n-A FORWARD -j ACCEPT\nCOMMIT\n").save());
}

TEST(IptablesCleanup, WhatOthersHaveStays) {
  const std::string foreign =
      "*filter\n:DOCKER-USER - [0:0]\n-A FORWARD -j DOCKER-USER\n"
      "-A INPUT -m comment --comment \"see -j KUBE-SERVICES\" -j ACCEPT\nCOMMIT\n"
      "*nat\n:KUBE-MARK-DROP - [0:0]\n:KUBE-KUBELET-CANARY - [0:0]\n:KUBE-HOSTPORTS - [0:0]\n"
      "-A PREROUTING -j KUBE-HOSTPORTS\nCOMMIT\n*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n";
  Tables tables = with(foreign);
  ASSERT_TRUE(tables.apply(kOther));
  EXPECT_THAT(clean(tables, both(owned(), other_mode())), IsEmpty());
  EXPECT_EQ(tables.save(), with(foreign).save());
}

TEST(IptablesCleanup, AChainThatARuleOfSomebodyElseJumpsToIsEmptied) {
  const std::string foreign =
      "*nat\n:CNI-SETMARK - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-SERVICES - [0:0]\n"
      "-A CNI-SETMARK -m comment --comment \"say \\\"so\\\" -j X\" -j KUBE-MARK-MASQ\n"
      "-A PREROUTING -g KUBE-SERVICES\nCOMMIT\n";
  Tables tables = with(foreign);
  ASSERT_TRUE(tables.apply("*nat\n-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\nCOMMIT\n"));
  EXPECT_THAT(
      clean(tables),
      ElementsAre("-A PREROUTING -g KUBE-SERVICES",
                  "-A CNI-SETMARK -m comment --comment \"say \\\"so\\\" -j X\" -j KUBE-MARK-MASQ"));
  EXPECT_EQ(tables.save(), with(foreign).save());
}

}  // namespace
}  // namespace iptables
