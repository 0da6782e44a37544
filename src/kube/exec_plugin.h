// A program that knows our credentials: an exec plugin of the kubeconfig.
//
// What it gave is kept until it expires or the server refuses it; then the program runs again, in a
// thread of its own, one run at a time however many wait for it. One that does not come back is
// killed.
//
// Lives on the loop thread and must be destroyed before that loop's io_context: it then kills a program
// that is running, and waits for the thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "config/kubeconfig.h"
#include "event/async.h"
#include "kube/clocks.h"
#include "kube/exec_credential.h"
#include "kube/observer.h"
#include "kube/pem_files.h"

namespace kube {

class ExecPlugin {
 public:
  // REQUIRES: access.exec. `access`, `pem` and `observer` outlive it.
  ExecPlugin(const config::Access& access, const PemFiles& pem, Clocks clocks, Observer& observer,
             std::chrono::milliseconds timeout = std::chrono::minutes(1));
  ~ExecPlugin();
  ExecPlugin(const ExecPlugin&) = delete;
  ExecPlugin& operator=(const ExecPlugin&) = delete;

  using Given = std::shared_ptr<const ExecCredential>;

  // What it gave last, or will give now. Errors as kube-proxy has them: "exec: executable X failed with
  // exit code 1".
  event::Async<base::Result<Given>> get();

  // The server did not like this token (none: the certificate). If it is still what we have, the
  // program runs again when somebody asks.
  void refused(const std::string& token);

  // Grows when it gave another certificate than before.
  uint64_t generation() const;

 private:
  struct Run;
  struct State;

  bool is_good() const;
  void start(const boost::asio::any_io_executor& executor);

  const config::Access& access_;
  const PemFiles& pem_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<State> state_;
};

}  // namespace kube
