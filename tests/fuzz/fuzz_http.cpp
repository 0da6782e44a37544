// Whatever a server answers to a watch: through HTTP, the cutting into events, and into the model.
//
// The first byte says in which pieces it arrives, the second which resource was asked for.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "base/check.h"
#include "http/connection.h"
#include "http/test_stream.h"
#include "model/store.h"
#include "source/api/cache.h"
#include "source/api/wire.h"

namespace {

using namespace std::chrono_literals;
using source::api::Resource;

constexpr size_t kMaxEvent = 1 << 16;

void take(source::api::Event event, source::api::Cache& cache, model::Store& store) {
  using source::api::EventType;
  if (event.type == EventType::Bookmark || event.type == EventType::Error) return;
  CHECK(!event.item.name.empty());
  std::vector<model::Change> changes;
  cache.apply(std::move(event), changes);
  for (auto& change : changes)
    store.fold(std::move(change));
}

event::Async<> watch(http::Connection& connection, Resource resource) {
  const std::string request = "GET / HTTP/1.1\r\n\r\n";
  const auto head = co_await connection.exchange(request, 1h);
  if (!head) co_return;
  const auto encoding = source::api::encoding_of(head->content_type);
  if (head->status != 200 || !encoding) {
    const auto body = co_await connection.read(1h);
    if (body) source::api::decode_status(head->status, head->content_type, *body);
    co_return;
  }
  source::api::EventReader reader(resource, *encoding, kMaxEvent);
  source::api::Cache cache(resource);
  model::Store store("node1");
  while (true) {
    const auto bytes = co_await connection.read(1h);
    if (!bytes || bytes->empty()) break;
    CHECK(bytes->size() <= http::Connection::kBufferBytes);
    const auto fed = reader.feed(
        *bytes, [&](source::api::Event event) { take(std::move(event), cache, store); });
    if (!fed) break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto resource = static_cast<Resource>(data[1] % source::api::kResources);
  boost::asio::io_context io;
  http::Connection connection(
      io.get_executor(),
      std::make_unique<http::ScriptedStream>(
          std::string(reinterpret_cast<const char*>(data) + 2, size - 2), data[0]));
  boost::asio::co_spawn(io, watch(connection, resource), boost::asio::detached);
  io.run();
  return 0;
}
