// What proves to the API server who we are: headers for a request, a context for TLS. Both are picked
// up anew when they change on disk, run out, or are refused.
//
// How soon: a token file is read again after 50 s of use, or with the first request after a 401; files of
// a certificate or CA are compared with each call of tls() and generation() that comes a second or more
// after the last. Whatever cannot be read, or makes no sense, keeps the old in force and is told.
//
// Lives on the loop thread; destroyed before that loop's io_context. Logs nothing: the caller gets
// notices. No secret is ever in a notice or in an error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "config/kubeconfig.h"
#include "event/async.h"
#include "http/tls.h"
#include "kube/clocks.h"
#include "kube/notice.h"
#include "kube/observer.h"
#include "kube/pem_files.h"
#include "kube/request_headers.h"

namespace kube {

class ExecPlugin;
class TokenFile;

class Credentials {
 public:
  // Reads what is there; fails where kube-proxy would not start. The observer, if there is one, outlives
  // the credentials.
  static base::Result<std::unique_ptr<Credentials>> open(config::Access access, Tell tell,
                                                         Clocks clocks = {},
                                                         Observer* observer = nullptr);
  ~Credentials();
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  // Headers for the next request: Authorization (https only) and impersonation. May run the exec
  // plugin (in a thread of its own), one at a time however many requests wait for it.
  event::Async<base::Result<Headers>> headers();

  // The server said 401 to a request with these headers. If they are what we would send again, they are
  // worth nothing any more: a plugin runs again, a token file is read again.
  void refused(const Headers& sent);

  // The context for connections made from now on; null for an http server. May run the exec plugin.
  event::Async<base::Result<http::TlsContext>> tls();

  // Grows when the client certificate or the CA has changed: connections of an older generation are
  // to be closed. That of a connection is what this gives right after tls().
  uint64_t generation();

 private:
  Credentials(config::Access access, Tell tell, Clocks clocks, Observer& observer);
  base::Result<> open_files();

  config::Access access_;
  Tell tell_;
  Clocks clocks_;
  Observer& observer_;
  bool secure_;
  Headers impersonation_;
  PemFiles pem_;
  std::unique_ptr<TokenFile> token_file_;
  std::unique_ptr<ExecPlugin> exec_;

  http::TlsContext context_;  // of context_generation_
  uint64_t context_generation_ = 0;
};

}  // namespace kube
