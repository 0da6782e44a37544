#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/commands.h"
#include "config/options.h"
#include "daemon/clean_up.h"
#include "daemon/daemon.h"
#include "log/log.h"

namespace {

void say(const config::Options::Notice& notice) {
  switch (notice.severity) {
    case klog::Severity::Info:
      klog::verbose(notice.verbosity, notice.message, notice.fields);
      break;
    case klog::Severity::Warning:
      klog::warning(notice.message, notice.fields);
      break;
    default:
      klog::error(notice.message, "", notice.fields);
  }
}

int command_failed(const std::string& why) {
  klog::error("command failed", why);
  return 1;
}

int write_config(const config::Options& options) {
  errno = 0;
  std::ofstream file(options.write_config_to, std::ios::binary | std::ios::trunc);
  file << config::write_yaml(options.config);
  file.close();
  if (!file)
    return command_failed(base::errno_error("open " + options.write_config_to, errno).text);
  klog::info("Wrote configuration", {{"file", options.write_config_to}});
  return 0;
}

int run_daemon(const config::Options& options) {
  if (options.cleanup) {
    if (proxyd::clean_up_everything()) return 0;
    return command_failed("encountered an error while tearing down rules");
  }
  const auto ended = proxyd::run(options);
  if (ended) return 0;
  klog::error("Error running ProxyServer", ended.error().text);
  return command_failed(ended.error().text);
}

int daemon_main(const std::vector<std::string>& args) {
  config::Parsed parsed = config::parse_command_line(args);
  std::fputs(parsed.deprecation_notices.c_str(), stderr);
  if (parsed.exit) {
    std::fputs(parsed.exit->out.c_str(), stdout);
    std::fputs(parsed.exit->err.c_str(), stderr);
    return parsed.exit->code;
  }
  // These come before the log format applies: always as text.
  klog::Options text = config::log_options(parsed.options.config.logging);
  text.format = klog::Format::Text;
  klog::configure(text);
  for (const auto& notice : parsed.options.notices)
    say(notice);
  if (parsed.logging_checked) klog::configure(config::log_options(parsed.options.config.logging));
  for (const auto& [name, value] : parsed.options.flags) {
    klog::verbose(1, "FLAG: --" + name + "=\"" + value + "\"");
  }
  if (parsed.command_error) return command_failed(*parsed.command_error);
  if (!parsed.options.write_config_to.empty()) return write_config(parsed.options);
  return run_daemon(parsed.options);
}

int subcommand_main(const std::string& name, int (*command)(const cli::Arguments&),
                    const std::vector<std::string>& args) {
  const auto arguments = cli::parse_arguments(args);
  if (!arguments) {
    cli::complain(name + ": " + arguments.error().text);
    cli::complain("see `kube-proxy " + name + " --help`");
    return name == "diff" ? 2 : 1;
  }
  if (arguments->help) {
    return cli::print(cli::help_text(name));
  }
  return command(*arguments);
}

// What may be odd about the process that started us.
void prepare_process() {
  ::signal(SIGPIPE, SIG_IGN);  // a program that stops reading is an error we handle
  ::signal(SIGCHLD, SIG_DFL);  // if it is inherited as ignored, children leave no exit status
  // With a standard descriptor closed, its number would go to the next file that is opened.
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF) ::open("/dev/null", O_RDWR);
  }
}

}  // namespace

int main(int argc, char** argv) {
  prepare_process();
  std::vector<std::string> args(argv + 1, argv + argc);
  const std::pair<const char*, int (*)(const cli::Arguments&)> commands[] = {
      {"render", cli::render}, {"apply", cli::apply}, {"diff", cli::diff}};
  for (const auto& [name, command] : commands) {
    if (args.empty() || args.front() != name) continue;
    args.erase(args.begin());
    return subcommand_main(name, command, args);
  }
  const int status = daemon_main(args);
  std::fflush(nullptr);
  // As kube-proxy does, without waiting for a program that is writing rules: it commits or it does
  // not, and the next start finds out.
  std::_Exit(status);
}
