// kp_bench SERVICES ENDPOINTS: what the rooms from source to transaction cost, without a kernel.
//
// Prints one JSON object: milliseconds (the median where there are several runs), bytes, counts.
// bench/run makes the tables.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "backend/iptables/diff.h"
#include "codec/document.h"
#include "model/store.h"
#include "plan/plan.h"
#include "source/decode.h"
#include "support/builders.h"

namespace {

using Clock = std::chrono::steady_clock;

template <typename Work>
double time_ms(Work&& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::string pod_ip(int service, int endpoint) {
  const int number = service * 16 + endpoint;
  return "10." + std::to_string(128 + (number >> 16 & 63)) + "." +
         std::to_string(number >> 8 & 255) + "." + std::to_string(number & 255);
}

build::slice a_slice(int service, int endpoints, int replaced_by = -1) {
  build::slice slice("bench/svc-" + std::to_string(service),
                     "svc-" + std::to_string(service) + "-abcde");
  slice.port("http", 8080);
  for (int e = 0; e < endpoints; ++e) {
    const bool changed = e == 0 && replaced_by >= 0;
    const std::string ip =
        changed ? "10.250.0." + std::to_string(1 + replaced_by % 250) : pod_ip(service, e);
    slice.ready(ip, "node-" + std::to_string(e % 100));
  }
  return slice;
}

// The stream of documents that a folder of manifests would hold.
std::string manifests(int services, int endpoints) {
  std::string out;
  for (int s = 0; s < services; ++s) {
    const std::string name = "svc-" + std::to_string(s);
    const std::string ip = "10.96." + std::to_string(s >> 8) + "." + std::to_string(s & 255);
    out += "apiVersion: v1\nkind: Service\nmetadata:\n  name: " + name +
           "\n  namespace: bench\nspec:\n  clusterIP: " + ip + "\n  clusterIPs:\n  - " + ip +
           "\n  ports:\n  - name: http\n    port: 80\n    protocol: TCP\n---\n"
           "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: " +
           name +
           "-abcde\n  namespace: bench\n"
           "  labels:\n    kubernetes.io/service-name: " +
           name + "\naddressType: IPv4\nendpoints:\n";
    for (int e = 0; e < endpoints; ++e) {
      out += "- addresses:\n  - " + pod_ip(s, e) +
             "\n  conditions:\n    ready: true\n    serving: true\n    terminating: false\n"
             "  nodeName: node-" +
             std::to_string(e % 100) + "\n";
    }
    out += "ports:\n- name: http\n  port: 8080\n  protocol: TCP\n---\n";
  }
  return out;
}

struct Bench {
  model::Store store{"node-0"};
  model::SnapshotPtr snapshot;
  plan::Context context;
  iptables::RuleOptions options;
  iptables::NodePortAddresses node_ports;
  iptables::Ledger ledger;

  Bench() {
    context.node_name = "node-0";
    options.local_traffic.by = plan::LocalTraffic::By::Source;
    options.local_traffic.cidr = build::cidr("10.128.0.0/9");
  }

  iptables::SyncInput input() const { return {options, node_ports}; }

  double decode(const std::string& text) {
    source::Decoded decoded;
    const double ms = time_ms([&] {
      const auto parsed = codec::parse_stream(text, [&](codec::Value document) -> base::Result<> {
        source::decode(document, decoded);
        return {};
      });
      if (!parsed) std::fprintf(stderr, "%s\n", parsed.error().text.c_str());
    });
    for (auto& object : decoded.objects) {
      if (auto* service = std::get_if<std::shared_ptr<const model::Service>>(&object.any))
        store.fold(*service);
      if (auto* slice = std::get_if<std::shared_ptr<const model::EndpointSlice>>(&object.any))
        store.fold(*slice);
    }
    return ms;
  }

  double plan_all() {
    const auto current = store.snapshot();
    size_t ports = 0;
    return time_ms([&] {
      current->services.for_each(
          [&](const auto& entry) { ports += plan::compile_service(*entry, context).ports.size(); });
    });
  }

  // Plan, render and diff against an empty kernel.
  double full(size_t& bytes) {
    double ms = 0;
    iptables::Transaction transaction;
    ms = time_ms([&] {
      auto plans = plan::compile_all(store.snapshot()->services, context);
      transaction = iptables::diff_full(input(), std::move(plans), {}, ledger);
    });
    bytes = transaction.bytes();
    return ms;
  }

  // Fold, plan, render and diff of one replaced endpoint.
  double change(int number, int services, int endpoints, size_t& bytes) {
    const auto changed = a_slice(number % services, endpoints, number).ptr();
    iptables::Transaction transaction;
    const double ms = time_ms([&] {
      const auto dirty = store.fold(changed);
      const auto plans = plan::compile_some(store.snapshot()->services, dirty.services, context);
      transaction = iptables::diff_partial(input(), plans, ledger);
    });
    bytes = transaction.bytes();
    return ms;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--manifests") {
    const std::string text = manifests(std::atoi(argv[2]), std::atoi(argv[3]));
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
  }
  if (argc != 3) {
    std::fprintf(
        stderr,
        "usage: kp_bench SERVICES ENDPOINTS\n       kp_bench --manifests SERVICES ENDPOINTS\n");
    return 2;
  }
  const int services = std::atoi(argv[1]);
  const int endpoints = std::atoi(argv[2]);
  Bench bench;
  double decode_ms = 0;
  size_t yaml_bytes = 0;
  {
    const std::string text = manifests(services, endpoints);
    yaml_bytes = text.size();
    decode_ms = bench.decode(text);
  }
  std::vector<double> plans;
  std::vector<double> fulls;
  size_t full_bytes = 0;
  for (int i = 0; i < 5; ++i) {
    plans.push_back(bench.plan_all());
    fulls.push_back(bench.full(full_bytes));
  }
  std::vector<double> changes;
  size_t change_bytes = 0;
  for (int i = 0; i < 501; ++i)
    changes.push_back(bench.change(i * 7, services, endpoints, change_bytes));
  std::vector<double> sorted = changes;
  std::ranges::sort(sorted);
  std::printf(
      "{\"services\":%d,\"endpoints\":%d,\"yaml_bytes\":%zu,\"decode_ms\":%.1f,\"plan_ms\":%.1f,"
      "\"full_ms\":%.1f,\"full_bytes\":%zu,\"change_ms\":%.4f,\"change_p99_ms\":%.4f,\"change_"
      "bytes\":%zu}\n",
      services, endpoints, yaml_bytes, decode_ms, median(plans), median(fulls), full_bytes,
      median(changes), sorted[sorted.size() * 99 / 100], change_bytes);
  return 0;
}
