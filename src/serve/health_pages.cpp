#include "serve/health_pages.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"

namespace serve {
namespace {

using http::Answer;
using http::Incoming;

// What Go prints for a time that was never set.
constexpr std::string_view kNever = "0001-01-01T00:00:00Z";

void append_two_digits(std::string& out, int number) {
  out += static_cast<char>('0' + number / 10);
  out += static_cast<char>('0' + number % 10);
}

// ".5" for half a second; nothing for none.
std::string fraction(std::chrono::nanoseconds part) {
  if (part.count() == 0) return "";
  std::string digits = std::to_string(part.count());
  digits.insert(0, 9 - digits.size(), '0');
  digits.erase(digits.find_last_not_of('0') + 1);
  return "." + digits;
}

// "Z", "+02:00"
std::string utc_offset(long seconds) {
  if (seconds == 0) return "Z";
  std::string out = seconds < 0 ? "-" : "+";
  const int minutes = static_cast<int>(std::abs(seconds)) / 60;
  append_two_digits(out, minutes / 60);
  out += ':';
  append_two_digits(out, minutes % 60);
  return out;
}

// As Go writes times into JSON: "2026-11-15T20:43:16.939599673Z".
std::string local_time(Health::Wall time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const time_t seconds = std::chrono::system_clock::to_time_t(whole);
  tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[64];
  const size_t size = ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return std::string(text, size) + fraction(time - whole) + utc_offset(parts.tm_gmtoff);
}

void append_field(std::string& out, std::string_view name, bool value) {
  out += ",\"" + std::string(name) + (value ? "\":true" : "\":false");
}

std::string latest_update(const Health::View& view) {
  std::optional<Health::Wall> latest;
  for (const auto& family : view.families) {
    if (family) latest = std::max(latest.value_or(family->last_updated), family->last_updated);
  }
  return latest ? local_time(*latest) : std::string(kNever);
}

std::string family_status(const Health::View& view) {
  static constexpr std::array<std::string_view, 2> kNames{"IPv4", "IPv6"};
  std::vector<std::string> families;
  for (size_t i = 0; i < view.families.size(); ++i) {
    const auto& family = view.families[i];
    if (!family) continue;
    std::string text = "\"" + std::string(kNames[i]) + "\":{\"lastUpdated\":\"" +
                       local_time(family->last_updated) + "\"";
    append_field(text, "healthy", family->healthy);
    families.push_back(text + "}");
  }
  return families.empty() ? "" : ",\"status\":{" + base::join(families, ",") + "}";
}

enum class Page { Healthz, Livez };

Answer show(Page page, const Health::View& view) {
  const bool good = view.healthy && (page == Page::Livez || view.node_eligible);
  const std::string now = local_time(view.now);
  std::string body = "{\"lastUpdated\":\"" + (good ? now : latest_update(view)) +
                     "\",\"currentTime\":\"" + now + "\"";
  if (page == Page::Healthz) append_field(body, "nodeEligible", view.node_eligible);
  append_field(body, "healthy", view.healthy);
  body += family_status(view) + "}";
  return {.status = good ? 200 : 503,
          .headers = {{"Content-Type", "application/json"}, {"X-Content-Type-Options", "nosniff"}},
          .body = std::move(body)};
}

Route route(std::string path, Page page, const Health& health, std::function<void(int)> answered) {
  return {std::move(path), [page, &health, answered = std::move(answered)](const Incoming&) {
            auto answer = show(page, health.look());
            answered(answer.status);
            return answer;
          }};
}

}  // namespace

Routes health_routes(const HealthPages& shown) {
  return {route("/healthz", Page::Healthz, shown.health, shown.healthz_answered),
          route("/livez", Page::Livez, shown.health, shown.livez_answered)};
}

}  // namespace serve
