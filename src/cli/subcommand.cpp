#include "cli/subcommand.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/fd.h"
#include "base/text.h"
#include "kernel/addresses.h"
#include "source/manifests.h"

namespace cli {
namespace {

using base::ErrorCode;
using base::fail;
using base::Result;

// Splits "--flag=value" / "--flag value" into flag and value.
class ArgumentReader {
 public:
  explicit ArgumentReader(std::span<const std::string> args) : args_(args) {}

  bool done() const { return at_ >= args_.size(); }

  // The next flag; its value, if it came with "=", waits for value().
  Result<std::string> flag() {
    const std::string& word = args_[at_++];
    attached_.reset();
    if (!word.starts_with('-') || word == "-") {
      return fail(ErrorCode::Invalid,
                  "unexpected argument " + base::quote(word) + "; manifests are given with -f");
    }
    const size_t equals = word.find('=');
    if (equals != std::string::npos) attached_ = word.substr(equals + 1);
    std::string name = word.substr(0, equals);
    if (name.starts_with("--")) std::ranges::replace(name, '_', '-');
    return name;
  }

  Result<std::string> value(const std::string& flag) {
    if (attached_) return *attached_;
    if (done()) return fail(ErrorCode::Invalid, "flag needs an argument: " + flag);
    return args_[at_++];
  }

 private:
  std::span<const std::string> args_;
  size_t at_ = 0;
  std::optional<std::string> attached_;
};

Result<std::vector<net::Family>> parse_family(const std::string& text) {
  const std::string word = base::lower(text);
  if (word == "ipv4") return std::vector{net::Family::V4};
  if (word == "ipv6") return std::vector{net::Family::V6};
  return fail(ErrorCode::Invalid, "--family takes ipv4 or ipv6, not " + base::quote(text));
}

Result<bool> parse_output(const std::string& text) {
  if (text == "json") return true;
  if (text == "text") return false;
  return fail(ErrorCode::Invalid, "-o takes text or json, not " + base::quote(text));
}

Result<> take_flag(const std::string& flag, ArgumentReader& reader, Arguments& out) {
  if (flag == "-h" || flag == "--help") {
    out.help = true;
  } else if (flag == "-f" || flag == "--filename") {
    out.manifests = TRY(reader.value(flag));
  } else if (flag == "--config") {
    out.overrides.config_file = TRY(reader.value(flag));
  } else if (flag == "--proxy-mode") {
    out.overrides.proxy_mode = TRY(reader.value(flag));
  } else if (flag == "--hostname-override") {
    out.overrides.hostname_override = TRY(reader.value(flag));
  } else if (flag == "--cluster-cidr") {
    out.overrides.cluster_cidr = TRY(reader.value(flag));
  } else if (flag == "--family") {
    const std::string family = TRY(reader.value(flag));
    out.families = TRY(parse_family(family));
  } else if (flag == "-o" || flag == "--output") {
    const std::string output = TRY(reader.value(flag));
    out.json = TRY(parse_output(output));
  } else {
    return fail(ErrorCode::Invalid, "unknown flag: " + flag);
  }
  return {};
}

// Standard input as a file that can be read like any other.
Result<base::Fd> copy_of_stdin() {
  base::Fd file(::memfd_create("manifests", MFD_CLOEXEC));
  if (!file) return base::fail_errno("memfd_create");
  std::array<char, 65536> buffer;
  // One byte too many is told as for any file that is too large.
  for (int64_t total = 0; total <= source::Manifests::kMaxFileBytes;) {
    const ssize_t size = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (size < 0) return base::fail_errno("standard input");
    if (size == 0) return file;
    if (::write(file.get(), buffer.data(), static_cast<size_t>(size)) != size)
      return base::fail_errno("memfd");
    total += size;
  }
  return file;
}

// Reads the manifests into the world; what is wrong with them is told on stderr.
void read_manifests(const std::string& path, model::Store& store, World& world) {
  source::Manifests manifests(path);
  auto loaded = manifests.load();
  for (auto& report : loaded.reports) {
    if (path.starts_with("/proc/self/fd/")) report.file = "-";
    complain(report.str());
    world.complete = world.complete && report.severity != source::Report::Severity::Error;
  }
  for (auto& change : loaded.changes)
    store.fold(std::move(change));
  world.snapshot = store.snapshot();
  world.snapshot->services.for_each([](const model::ServiceEntryPtr& entry) {
    if (entry->service != nullptr && entry->service->skip == model::SkipReason::NoClusterIp &&
        entry->service->type != model::ServiceType::ExternalName) {
      complain("Service " + entry->key.str() + ": spec.clusterIP is empty: not proxied");
    }
  });
}

// Notices about the configuration file; "Using iptables proxy" is no news here.
void tell_notices(const config::Options& options) {
  for (const auto& notice : options.notices) {
    const bool news = notice.severity != klog::Severity::Info || !notice.fields.empty();
    if (!news || notice.verbosity > 0) continue;
    std::string text = notice.message;
    for (const auto& field : notice.fields)
      text += " " + field.key + "=" + field.value;
    complain(text);
  }
}

}  // namespace

Result<Arguments> parse_arguments(std::span<const std::string> args) {
  Arguments out;
  ArgumentReader reader(args);
  while (!reader.done()) {
    const std::string flag = TRY(reader.flag());
    TRY(take_flag(flag, reader, out));
  }
  if (out.manifests.empty() && !out.help) {
    return fail(ErrorCode::Invalid, "no manifests: give a file or a folder with -f");
  }
  return out;
}

std::string help_text(std::string_view name) {
  std::string out;
  if (name == "render") {
    out +=
        "Prints what would be in the kernel for these manifests. Touches nothing, needs no root.\n";
  } else if (name == "apply") {
    out +=
        "Puts into the kernel what one full sync of the daemon leaves there, and exits: rules,\n"
        "route_localnet and, in mode iptables, canary chains and nfacct counters. Writes only "
        "what\n"
        "differs. Not in mode userspace, whose rules lead to sockets of the daemon.\n";
  } else {
    out +=
        "Prints what a full sync would change now. Exit status 0: nothing; 1: something; 2: "
        "trouble.\n";
  }
  out += "\nUsage:\n  kube-proxy " + std::string(name) +
         " -f MANIFESTS [flags]\n\nFlags:\n"
         "  -f, --filename PATH         a file or a folder with Node, Service, EndpointSlice and\n"
         "                              ServiceCIDR objects, as YAML or JSON; - is standard input\n"
         "      --config PATH           a KubeProxyConfiguration\n"
         "      --proxy-mode MODE       wins over the configuration file, as do the next two\n"
         "      --hostname-override N   the name of this node\n"
         "      --cluster-cidr CIDR     addresses of pods\n"
         "      --family ipv4|ipv6      only this family (default: both)\n"
         "  -o, --output text|json      for people, or for programs (default: text)\n"
         "  -h, --help                  this text\n";
  return out;
}

Result<World> load_world(const Arguments& arguments) {
  World world;
  auto options = TRY(config::load_for_subcommand(arguments.overrides));
  tell_notices(options);
  world.config = std::move(options.config);
  TRY(proxyd::check_settings(world.config));
  const std::string name = TRY(proxyd::node_name(world.config));
  model::Store store(name);
  if (arguments.manifests == "-") {
    const base::Fd copy = TRY(copy_of_stdin());
    read_manifests("/proc/self/fd/" + std::to_string(copy.get()), store, world);
  } else if (::access(arguments.manifests.c_str(), R_OK) == 0) {
    read_manifests(arguments.manifests, store, world);
  } else {
    return base::fail_errno(arguments.manifests);
  }
  world.node = proxyd::resolve_node(world.config, name, world.snapshot->node.get(),
                                    TRY(kernel::interface_addresses()));
  return world;
}

void complain(std::string_view text) {
  std::fprintf(stderr, "kube-proxy: %.*s\n", static_cast<int>(text.size()), text.data());
}

int print(std::string_view text, int status) {
  const size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return status;
  complain(base::errno_error("standard output", errno).text);
  return 1;
}

}  // namespace cli
