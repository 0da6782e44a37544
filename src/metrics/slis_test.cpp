#include "metrics/slis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace metrics {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Slis, TheCheckIsShownOnceItWasAskedFor) {
  Slis slis;
  EXPECT_THAT(slis.show(Format::Text), HasSubstr("# HELP process_start_time_seconds [ALPHA] "));
  EXPECT_THAT(slis.show(Format::Text), Not(HasSubstr("kubernetes_healthcheck")));
  slis.ping_succeeded();
  slis.ping_succeeded();
  EXPECT_THAT(slis.show(Format::Text),
              HasSubstr("# TYPE kubernetes_healthcheck gauge\n"
                        "kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1\n"));
  EXPECT_THAT(slis.show(Format::Text),
              HasSubstr("# TYPE kubernetes_healthchecks_total counter\n"
                        "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type="
                        "\"healthz\"} 2\n"));
}

}  // namespace
}  // namespace metrics
