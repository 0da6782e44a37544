// The CA, our certificate and its key: in files that change on disk, or in the kubeconfig.
//
// Files are read again, and compared byte by byte, at most once a second and only when somebody asks.
// What cannot be read, or makes no sense (a new certificate beside the old key), keeps what was there
// in force and is told about, every five minutes as long as it lasts.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "config/kubeconfig.h"
#include "http/tls.h"
#include "kube/clocks.h"
#include "kube/notice.h"

namespace kube {

class PemFiles {
 public:
  PemFiles(const config::Access& access, Tell tell, Clocks clocks);

  // Reads everything for the first time. Fails where kube-proxy does not start: files that cannot be
  // read, a CA that is none, a pair in the kubeconfig itself that does not fit. A pair of files that
  // does not fit may be mended later.
  base::Result<> open();

  // Reads again what is in files, unless that was less than a second ago.
  void look();

  // What is in force. An error if our certificate and key were never good.
  base::Result<http::TlsOptions> options() const;

  // Grows when another CA or certificate comes into force in place of one.
  uint64_t generation() const { return generation_; }

 private:
  base::Result<> open_ca();
  base::Result<> open_pair();
  bool has_pair() const { return !cert_.empty(); }
  bool is_pair_of_files() const { return cert_.data.empty() && key_.data.empty(); }
  void look_at_ca();
  void look_at_pair();
  void complain_about_pair(const std::string& err);
  void complain(const Notice& notice, Patience& patience);

  config::Pem ca_;
  config::Pem cert_;
  config::Pem key_;
  bool in_cluster_;
  Tell tell_;
  Clocks clocks_;

  http::TlsOptions in_force_;
  std::string pair_problem_;  // empty once a pair is in force
  uint64_t generation_ = 0;
  std::chrono::steady_clock::time_point looked_at_;
  Patience ca_patience_;
  Patience pair_patience_;
};

}  // namespace kube
