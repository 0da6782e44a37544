#include "daemon/rule_watch.h"

#include <utility>

namespace proxyd {

RuleWatch::RuleWatch(Loop& loop, std::unique_ptr<backend::Watch> watch, Mailbox mailbox)
    : watch_(std::move(watch)), mailbox_(std::move(mailbox)), news_(loop, [this] { hear(); }) {}

base::Result<> RuleWatch::start() { return news_.watch(watch_->fd()); }

void RuleWatch::hear() {
  const backend::Disturbance disturbance = watch_->drain();
  if (disturbance != backend::Disturbance::None) mailbox_->put({.disturbance = disturbance});
}

}  // namespace proxyd
