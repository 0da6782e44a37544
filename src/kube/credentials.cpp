#include "kube/credentials.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "http/basic_auth.h"
#include "kube/exec_plugin.h"
#include "kube/token_file.h"

namespace kube {
namespace {

using base::Result;

constexpr const char* kAuthorization = "Authorization";
constexpr const char* kGetting = "getting credentials";

// "Bearer TOKEN" -> "TOKEN"; "" if there is none.
std::string bearer_of(const Headers& headers) {
  constexpr std::string_view kBearer = "Bearer ";
  const auto found = std::ranges::find(headers, kAuthorization, &Headers::value_type::first);
  if (found == headers.end() || !found->second.starts_with(kBearer)) return "";
  return found->second.substr(kBearer.size());
}

}  // namespace

Credentials::Credentials(config::Access access, Tell tell, Clocks clocks, Observer& observer)
    : access_(std::move(access)),
      tell_(std::move(tell)),
      clocks_(std::move(clocks)),
      observer_(observer),
      secure_(base::lower(access_.server).starts_with("https://")),
      impersonation_(impersonation_headers(access_.impersonation)),
      pem_(access_, tell_, clocks_) {}

Credentials::~Credentials() = default;

Result<std::unique_ptr<Credentials>> Credentials::open(config::Access access, Tell tell,
                                                       Clocks clocks, Observer* observer) {
  std::unique_ptr<Credentials> made(new Credentials(std::move(access), std::move(tell),
                                                    std::move(clocks), observer_or_none(observer)));
  TRY(check_values(made->impersonation_));
  if (made->secure_) TRY(made->open_files());
  return made;
}

Result<> Credentials::open_files() {
  TRY(pem_.open());
  if (!access_.token_file.empty()) {
    token_file_ = std::make_unique<TokenFile>(access_.token_file, access_.token, tell_, clocks_);
    TRY(token_file_->open());
  }
  if (access_.exec) exec_ = std::make_unique<ExecPlugin>(access_, pem_, clocks_, observer_);
  return {};
}

event::Async<Result<Headers>> Credentials::headers() {
  Headers headers = impersonation_;
  if (!secure_) co_return headers;
  std::string token = token_file_ ? token_file_->token() : access_.token;
  if (exec_) {
    const auto given = co_await exec_->get();
    if (!given) co_return std::unexpected(given.error().in(kGetting));
    token = (*given)->token;
  }
  if (!token.empty()) {
    headers.emplace_back(kAuthorization, "Bearer " + token);
  } else if (!access_.username.empty()) {
    headers.emplace_back(kAuthorization,
                         http::basic_authorization(access_.username, access_.password));
  }
  const auto checked = check_values(headers);
  if (!checked) co_return std::unexpected(checked.error());
  co_return headers;
}

void Credentials::refused(const Headers& sent) {
  if (token_file_) token_file_->refused();
  if (exec_) exec_->refused(bearer_of(sent));
}

event::Async<Result<http::TlsContext>> Credentials::tls() {
  if (!secure_) co_return http::TlsContext();
  ExecPlugin::Given given;
  if (exec_) {
    auto got = co_await exec_->get();
    if (!got) co_return std::unexpected(got.error().in(kGetting));
    given = *std::move(got);
  }
  const uint64_t now = generation();
  if (context_ && context_generation_ == now) co_return context_;
  auto options = pem_.options();
  if (!options) co_return std::unexpected(options.error());
  if (given) {
    options->cert_pem = given->cert;
    options->key_pem = given->key;
  }
  auto made = http::make_tls_context(*options);
  if (!made) co_return std::unexpected(made.error());
  context_ = *std::move(made);
  context_generation_ = now;
  co_return context_;
}

uint64_t Credentials::generation() {
  if (!secure_) return 0;
  pem_.look();
  return pem_.generation() + (exec_ ? exec_->generation() : 0);
}

}  // namespace kube
