// iptables-save text, from a program that may be of any version: whatever it prints, we go on.
#include <cstdint>
#include <string_view>

#include "backend/iptables/cleanup.h"
#include "backend/iptables/connections.h"
#include "backend/iptables/dump.h"
#include "backend/iptables/tables.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  iptables::DumpReader reader;
  reader.feed(text.substr(0, size / 2));
  reader.feed(text.substr(size / 2));
  (void)reader.finish();
  for (const auto table : iptables::kTables)
    (void)iptables::diff_removal(table, text, iptables::owned()).transaction.str();
  iptables::ConnectionReader connections;
  connections.feed(text);
  (void)connections.finish();
  auto tables = iptables::Tables::parse_save(text);
  (void)tables.apply(text);
  (void)tables.save();
  return 0;
}
