// Whom we expect at the other end of TLS, and why it is not them.
#pragma once

#include <string>

#include <openssl/ssl.h>

#include "base/result.h"

namespace http {

// The certificate must be for this name or address, by its subject alternative names. Sends the name
// along (SNI), so that a server with several can choose.
base::Result<> expect_peer(SSL* ssl, const std::string& name);

// What is wrong with a certificate for which verification gave this result (X509_V_ERR_...), in the words of
// Go's programs, which people search for.
std::string peer_problem(int result, X509* certificate, const std::string& name);

}  // namespace http
