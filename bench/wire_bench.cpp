// wire_bench OBJECTS ENDPOINTS: from the bytes of an API server to the model, without a network.
//
// So many Services and as many EndpointSlices, as the events of a watch that arrive in pieces of 16 KiB and
// as one list, in both encodings. Prints one JSON object for each: milliseconds of the processor (median
// of 7), bytes on the wire, and bytes of memory that the model and the caches hold in the end.
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "model/store.h"
#include "source/api/cache.h"
#include "source/api/test_encode.h"
#include "source/api/wire.h"

namespace {

using source::api::Cache;
using source::api::Encoding;
using source::api::Event;
using source::api::EventReader;
using source::api::Resource;
namespace encode = source::api::encode;

constexpr int kRuns = 7;
constexpr size_t kPiece = size_t{16} << 10;

// Of the processor, so that other work on the machine does not count.
double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::string meta(const std::string& name, int number, const std::string& labels) {
  return R"("metadata":{"name":")" + name + R"(","namespace":"bench","resourceVersion":")" +
         std::to_string(100'000 + number) +
         R"(","uid":"5d1e9e20-7d4a-4a3c-9f0e-00000000000","generation":3,)"
         R"("creationTimestamp":"2026-01-01T00:00:00Z","labels":{)" +
         labels + "}}";
}

codec::Value parsed(const std::string& json) { return codec::json::parse(json).value(); }

codec::Value a_service(int number) {
  const std::string name = "service-" + std::to_string(number);
  const std::string ip =
      "10.96." + std::to_string(number >> 8) + "." + std::to_string(number & 255);
  return parsed(
      R"({"apiVersion":"v1","kind":"Service",)" + meta(name, number, R"("app":"web")") +
      R"(,"spec":{"type":"ClusterIP","clusterIP":")" + ip + R"(","clusterIPs":[")" + ip +
      R"("],"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","sessionAffinity":"None",)"
      R"("internalTrafficPolicy":"Cluster","selector":{"app":"web"},"ports":[{"name":"http",)"
      R"("protocol":"TCP","port":80,"targetPort":8080}]},"status":{"loadBalancer":{}}})");
}

codec::Value a_slice(int number, int endpoints) {
  const std::string name = "service-" + std::to_string(number);
  std::string list;
  for (int e = 0; e < endpoints; ++e) {
    const int pod = number * endpoints + e;
    list +=
        std::string(e == 0 ? "" : ",") + R"({"addresses":["10.)" +
        std::to_string(128 + (pod >> 16 & 63)) + "." + std::to_string(pod >> 8 & 255) + "." +
        std::to_string(pod & 255) +
        R"("],"conditions":{"ready":true,"serving":true,"terminating":false},"nodeName":"node-)" +
        std::to_string(pod % 100) +
        R"(","zone":"zone-a","targetRef":{"kind":"Pod","namespace":"bench","name":")" + name +
        "-5d8f9-x" + std::to_string(e) + R"(","uid":"5d1e9e20-7d4a-4a3c-9f0e-00000000000"}})";
  }
  return parsed(
      R"({"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice",)" +
      meta(
          name + "-abcde", number,
          R"("app":"web","endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io",)"
          R"("kubernetes.io/service-name":")" +
              name + "\"") +
      R"(,"addressType":"IPv4","endpoints":[)" + list +
      R"(],"ports":[{"name":"http","protocol":"TCP","port":8080}]})");
}

// All of one resource, as it comes over the wire.
struct Bytes {
  Resource resource;
  std::string events;
  std::string list;
};

Bytes bytes_of(Resource resource, Encoding encoding, const std::vector<codec::Value>& objects) {
  Bytes out{resource, "", ""};
  const bool proto = encoding == Encoding::Protobuf;
  for (const auto& object : objects)
    out.events += proto ? encode::event("ADDED", object) : encode::json_event("ADDED", object);
  out.list = proto ? encode::list(objects, "200000") : encode::json_list(objects, "200000");
  return out;
}

bool watch(const Bytes& bytes, Encoding encoding, Cache& cache, std::vector<model::Change>& out) {
  EventReader reader(bytes.resource, encoding);
  std::string_view rest = bytes.events;
  while (!rest.empty()) {
    if (!reader.feed(rest.substr(0, kPiece),
                     [&](Event event) { cache.apply(std::move(event), out); }))
      return false;
    rest.remove_prefix(std::min(kPiece, rest.size()));
  }
  return true;
}

bool list(const Bytes& bytes, Encoding encoding, Cache& cache, std::vector<model::Change>& out) {
  auto page = source::api::decode_list(bytes.resource, encoding, bytes.list);
  if (page) cache.replace(std::move(page->items), out);
  return page.has_value();
}

size_t heap() { return mallinfo2().uordblks + mallinfo2().hblkhd; }

void measure(const char* name, Encoding encoding, const std::vector<Bytes>& all) {
  std::vector<double> watches;
  std::vector<double> lists;
  std::vector<double> folds;
  size_t kept = 0;
  size_t changes = 0;
  for (int run = 0; run < kRuns; ++run) {
    const size_t before = heap();
    model::Store store("node-0");
    std::vector<Cache> caches;
    std::vector<model::Change> out;
    double start = cpu_ms();
    for (const auto& bytes : all) {
      Cache cache(bytes.resource);
      if (!watch(bytes, encoding, cache, out)) std::fprintf(stderr, "the watch failed\n");
      caches.push_back(std::move(cache));
    }
    watches.push_back(cpu_ms() - start);
    changes = out.size();
    start = cpu_ms();
    for (auto& change : out)
      (void)store.fold(std::move(change));
    folds.push_back(cpu_ms() - start);
    std::vector<model::Change>().swap(out);
    kept = heap() - before;
    start = cpu_ms();
    for (size_t i = 0; i < all.size(); ++i) {
      if (!list(all[i], encoding, caches[i], out)) std::fprintf(stderr, "the list failed\n");
    }
    lists.push_back(cpu_ms() - start);
  }
  size_t wire = 0;
  for (const auto& bytes : all)
    wire += bytes.events.size();
  std::printf(
      "{\"encoding\":\"%s\",\"changes\":%zu,\"wire_bytes\":%zu,\"watch_ms\":%.1f,\"list_ms\":%.1f,"
      "\"fold_ms\":%.1f,\"kept_bytes\":%zu}\n",
      name, changes, wire, median(watches), median(lists), median(folds), kept);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: wire_bench OBJECTS ENDPOINTS\n");
    return 2;
  }
  std::vector<codec::Value> services;
  std::vector<codec::Value> slices;
  for (int i = 0; i < std::atoi(argv[1]); ++i) {
    services.push_back(a_service(i));
    slices.push_back(a_slice(i, std::atoi(argv[2])));
  }
  for (const auto& [name, encoding] :
       {std::pair("protobuf", Encoding::Protobuf), {"json", Encoding::Json}}) {
    measure(name, encoding,
            {bytes_of(Resource::Services, encoding, services),
             bytes_of(Resource::EndpointSlices, encoding, slices)});
  }
  return 0;
}
