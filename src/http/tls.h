// TLS for clients: 1.2 or newer, and the peer is always verified unless told otherwise.
//
// The name of the peer belongs to a connection, not to a context: whoever connects sets it (SSL_set1_host,
// or X509_VERIFY_PARAM_set1_ip for an address). What a name may be is set here: no subject instead of
// a missing alternative name, no partial wildcards.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace boost::asio::ssl {
class context;
}

namespace http {

struct TlsOptions {
  bool verify = true;
  // PEM of those who may vouch for the server, any number of them. None: the system's. Empty: nobody.
  std::optional<std::string> ca_pem;
  std::string cert_pem;  // our own certificate (with its chain) and key; both or neither
  std::string key_pem;   // never one that is protected by a passphrase
};

// Shared by connections; never changed once made.
using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

// Errors are those of kube-proxy ("tls: private key does not match public key"); they never hold key
// material. A text of CAs in which there is no certificate is one.
base::Result<TlsContext> make_tls_context(const TlsOptions& options);

}  // namespace http
