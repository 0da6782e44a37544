#include "kube/exec_plugin.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <system_error>
#include <thread>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>

#include "base/fd.h"
#include "kernel/process.h"
#include "kube/certificate_times.h"
#include "kube/notice.h"

namespace kube {
namespace {

using namespace std::chrono_literals;
using base::ErrorCode;
using base::Result;

constexpr size_t kMaxOutput = 1024 * 1024;
constexpr auto kHintAgain = 1h;
constexpr const char* kInstallHelp =
    "\n\nThe kubeconfig names this program as a credential plugin, but it is not installed here.";

Result<bool> is_interactive(config::Interactive mode) {
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  if (mode == config::Interactive::Always && !terminal) {
    return base::fail(
        ErrorCode::Unsupported,
        "exec plugin cannot support interactive mode: standard input is not a terminal");
  }
  return terminal && mode != config::Interactive::Never;
}

// Why the program could not be started, or did not come to an end.
base::Error run_error(const base::Error& error, const std::string& program) {
  const bool by_name = program.find('/') == std::string::npos;
  if (error.code == ErrorCode::NotFound && by_name) {
    return {ErrorCode::NotFound, "exec: executable " + program + " not found"};
  }
  if (error.code == ErrorCode::NotFound) {
    return {ErrorCode::System, "exec: fork/exec " + program + ": no such file or directory"};
  }
  if (error.code == ErrorCode::Timeout)
    return {ErrorCode::Timeout, "exec: executable " + error.text};
  // "start X: permission denied"
  const std::string start = "start " + program;
  if (error.text.starts_with(start)) {
    return {error.code, "exec: fork/exec " + program + error.text.substr(start.size())};
  }
  return {error.code, "exec: " + error.text};
}

// How a run ended, in the words of the metric.
struct Call {
  int exit_code = 0;
  std::string_view status = "no_error";
};

struct Outcome {
  Result<ExecCredential> credential;
  std::optional<Call> call{};  // unless the program was not even tried
};

Call failed_call(const base::Error& error) {
  return {1,
          error.code == ErrorCode::NotFound ? "plugin_not_found_error" : "client_internal_error"};
}

// Runs in the thread; knows nothing of anybody else.
Outcome run_program(kernel::Command command, const std::string& api_version) {
  const std::string program = command.argv[0];
  std::string output;
  command.on_output = [&](std::string_view bytes) {
    output += bytes.substr(0, kMaxOutput + 1 - std::min(kMaxOutput + 1, output.size()));
  };
  const auto end = kernel::run(std::move(command));
  if (!end) return {std::unexpected(run_error(end.error(), program)), failed_call(end.error())};
  if (!end->ok()) {
    // Parity: Go has no exit code for a program that a signal ended.
    const int code = end->status > 128 ? -1 : end->status;
    return {base::fail(ErrorCode::System, "exec: executable " + program +
                                              " failed with exit code " + std::to_string(code)),
            Call{code, "plugin_execution_error"}};
  }
  if (output.size() > kMaxOutput) {
    return {base::fail(ErrorCode::Invalid, "decoding stdout: it is larger than 1 MiB"), Call{}};
  }
  return {parse_exec_credential(output, api_version), Call{}};
}

}  // namespace

// One run, as those see it who wait for it.
struct ExecPlugin::Run {
  explicit Run(const boost::asio::any_io_executor& executor)
      : finished(executor, std::chrono::steady_clock::time_point::max()) {}

  boost::asio::steady_timer finished;  // never expires; is cancelled to wake everybody
  bool done = false;
  Result<Given> result = Given();
};

// All but `thread` and `stop` belongs to the loop thread.
struct ExecPlugin::State {
  State(Clocks given_clocks, Observer& given_observer)
      : clocks(std::move(given_clocks)),
        observer(given_observer),
        stop(::eventfd(0, EFD_CLOEXEC)) {}

  void finish(Run& run, Outcome outcome, const std::string& hint) {
    if (outcome.call) observer.plugin_called(outcome.call->exit_code, outcome.call->status);
    auto& result = outcome.credential;
    if (result) {
      auto given = std::make_shared<const ExecCredential>(*std::move(result));
      if (cached && (cached->cert != given->cert || cached->key != given->key)) {
        ++generation;
        tell_age(cached->cert);
      }
      if (const auto times = certificate_times(given->cert))
        observer.certificate_given(times->not_after);
      cached = given;
      is_refused = false;
      run.result = std::move(given);
    } else {
      base::Error error = std::move(result).error();
      if (error.code == ErrorCode::NotFound && hints.is_over("hint", clocks.steady())) {
        error.text += kInstallHelp + (hint.empty() ? "" : "\n\n" + hint);
      }
      run.result = std::unexpected(std::move(error));
    }
    run.done = true;
    running.reset();
    run.finished.cancel();
  }

  // Of a certificate that is about to be replaced.
  void tell_age(const std::string& cert) const {
    const auto times = certificate_times(cert);
    if (!times) return;
    observer.certificate_replaced(
        std::chrono::floor<std::chrono::seconds>(clocks.wall() - times->not_before));
  }

  Clocks clocks;
  Observer& observer;
  Given cached;
  bool is_refused = false;
  uint64_t generation = 0;
  std::shared_ptr<Run> running;
  Patience hints{kHintAgain};
  base::Fd stop;  // readable: we are going away
  std::thread thread;
};

ExecPlugin::ExecPlugin(const config::Access& access, const PemFiles& pem, Clocks clocks,
                       Observer& observer, std::chrono::milliseconds timeout)
    : access_(access),
      pem_(pem),
      timeout_(timeout),
      state_(std::make_shared<State>(std::move(clocks), observer)) {}

ExecPlugin::~ExecPlugin() {
  if (!state_->thread.joinable()) return;
  ::eventfd_write(state_->stop.get(), 1);
  state_->thread.join();
}

bool ExecPlugin::is_good() const {
  const Given& cached = state_->cached;
  if (!cached || state_->is_refused) return false;
  return !cached->expires ||
         std::chrono::floor<std::chrono::seconds>(state_->clocks.wall()) < *cached->expires;
}

event::Async<Result<ExecPlugin::Given>> ExecPlugin::get() {
  if (is_good()) co_return state_->cached;
  if (!state_->running) {
    const boost::asio::any_io_executor executor = co_await boost::asio::this_coro::executor;
    start(executor);
  }
  const std::shared_ptr<Run> run = state_->running;
  boost::system::error_code ignored;
  while (!run->done) {
    co_await run->finished.async_wait(
        boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
  }
  co_return run->result;
}

void ExecPlugin::start(const boost::asio::any_io_executor& executor) {
  const auto run = std::make_shared<Run>(executor);
  state_->running = run;
  const config::ExecPlugin& plugin = *access_.exec;
  // As a letter to the loop, also where it is known at once: whoever asks waits for it first.
  const auto report = [executor, run, hint = plugin.install_hint,
                       state = std::weak_ptr(state_)](Outcome outcome) {
    boost::asio::post(executor, [run, hint, state, outcome = std::move(outcome)]() mutable {
      if (const auto alive = state.lock()) alive->finish(*run, std::move(outcome), hint);
    });
  };
  const auto interactive = is_interactive(plugin.interactive);
  if (!interactive) return report({std::unexpected(interactive.error())});

  const auto options = pem_.options();
  const std::string ca = options && options->ca_pem ? *options->ca_pem : "";
  kernel::Command command;
  command.argv = {plugin.command};
  command.argv.insert(command.argv.end(), plugin.args.begin(), plugin.args.end());
  command.environment = plugin.env;
  command.environment.emplace_back("KUBERNETES_EXEC_INFO", exec_info(access_, ca, *interactive));
  command.share_input = *interactive;
  command.share_errors = true;
  command.own_group = !*interactive;
  command.stop = state_->stop.get();
  command.timeout = timeout_;
  if (state_->thread.joinable()) state_->thread.join();  // its report was the last thing it did
  try {
    state_->thread =
        std::thread([command = std::move(command), version = plugin.api_version, report]() mutable {
          report(run_program(std::move(command), version));
        });
  } catch (const std::system_error& error) {
    report({base::fail(ErrorCode::System, std::string("exec: no thread: ") + error.what())});
  }
}

void ExecPlugin::refused(const std::string& token) {
  if (state_->cached && state_->cached->token == token) state_->is_refused = true;
}

uint64_t ExecPlugin::generation() const { return state_->generation; }

}  // namespace kube
