// A bearer token in a file that somebody else renews: the kubelet, for every pod.
//
// Read again after 50 s of use (kube-proxy keeps one for a minute and asks 10 s before that is over), or
// with the next use after the server has refused it. If that fails, the old one stays in force.
#pragma once

#include <chrono>
#include <string>

#include "base/result.h"
#include "kube/clocks.h"
#include "kube/notice.h"

namespace kube {

class TokenFile {
 public:
  // `fallback`, if any, counts until the file could be read once.
  TokenFile(std::string path, std::string fallback, Tell tell, Clocks clocks);

  // Reads it for the first time. Without a fallback it must be there, and not be empty.
  base::Result<> open();

  const std::string& token();

  void refused() { due_ = true; }

 private:
  base::Result<std::string> read() const;
  void renew();

  std::string path_;
  std::string token_;
  bool was_read_ = false;
  Tell tell_;
  Clocks clocks_;
  std::chrono::steady_clock::time_point read_at_;
  bool due_ = true;
  Patience patience_;
};

}  // namespace kube
