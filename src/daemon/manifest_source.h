// Manifests in a file or folder, read again whenever something is saved.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <boost/asio/steady_timer.hpp>

#include "daemon/intake.h"
#include "daemon/loop.h"
#include "daemon/source.h"
#include "source/manifests.h"
#include "source/watch.h"

namespace proxyd {

class ManifestSource final : public Source {
 public:
  ManifestSource(Loop& loop, const std::string& path, Intake& intake);

  base::Result<> find_node() override;  // reads everything
  void start() override;
  void record(kube::Event) override {}
  void flush_events() override {}

 private:
  void watch();
  void rescan_later();
  void look_again_after(std::chrono::milliseconds time);
  void refresh();
  void tell_trouble();

  Loop& loop_;
  std::string path_;
  Intake& intake_;
  source::Manifests manifests_;
  boost::asio::steady_timer timer_;  // the next regular look
  boost::asio::steady_timer soon_;   // a look that a reading asked for
  std::optional<source::Watch> watch_;
  Readable events_;
  std::string trouble_;  // told
};

}  // namespace proxyd
