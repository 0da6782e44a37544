// Listens to what others change in a table of nf_tables.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <libmnl/libmnl.h>

#include "base/result.h"
#include "net/ip.h"

namespace kernel::nf_tables {

// What was heard since the last time.
enum class News : uint8_t {
  Nothing,
  Missed,   // the kernel had to drop messages: anything may have happened
  Changed,  // somebody has changed the table
};

// What one message says. Exposed for tests: never reads beyond it.
News judge(const nlmsghdr& message, net::Family family, const std::string& table);

// The watches of one process. While anybody listens, the kernel describes every element that is written, which makes a
// large transaction take several times as long: whoever commits one asks for silence before.
//
// May be used from any thread.
class Listeners {
 public:
  // Nobody listens until it is destroyed.
  class Silence {
   public:
    explicit Silence(Listeners& listeners) : listeners_(listeners) { listeners_.hush(); }
    ~Silence() { listeners_.listen_again(); }
    Silence(const Silence&) = delete;
    Silence& operator=(const Silence&) = delete;

   private:
    Listeners& listeners_;
  };

 private:
  friend class TableWatch;

  base::Result<> add(int fd);
  void remove(int fd);
  void hush();
  void listen_again();

  std::mutex mutex_;
  std::vector<int> sockets_;
  int silences_ = 0;
};

class TableWatch {
 public:
  // What comes from the socket with the number `own` is not told: that is ourselves.
  static base::Result<std::unique_ptr<TableWatch>> open(net::Family family, std::string table,
                                                        uint32_t own,
                                                        std::shared_ptr<Listeners> listeners);
  ~TableWatch() { listeners_->remove(fd()); }
  TableWatch(const TableWatch&) = delete;
  TableWatch& operator=(const TableWatch&) = delete;

  // Readable when there is something to drain.
  int fd() const { return mnl_socket_get_fd(socket_.get()); }
  // Reads all messages that are there. Never blocks.
  News drain();

 private:
  using Socket = std::unique_ptr<mnl_socket, decltype(&mnl_socket_close)>;
  TableWatch(Socket socket, net::Family family, std::string table,
             std::shared_ptr<Listeners> listeners)
      : socket_(std::move(socket)),
        family_(family),
        table_(std::move(table)),
        listeners_(std::move(listeners)) {}

  Socket socket_;
  net::Family family_;
  std::string table_;
  std::shared_ptr<Listeners> listeners_;
};

}  // namespace kernel::nf_tables
