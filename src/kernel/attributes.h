// The attributes of a netlink message, for a range-based for. libmnl's own loops are macros that only C can read.
//
//   for (const nlattr& attribute : Attributes::of(message, sizeof(nfgenmsg)))
//     for (const nlattr& inner : Attributes::inside(attribute)) ...
//
// Never leaves the message, whatever lengths it claims: the walk ends at the first attribute that does not fit.
#pragma once

#include <cstddef>

#include <libmnl/libmnl.h>

namespace kernel::netlink {

class Attributes {
 public:
  // Those behind a header of `extra` bytes that the protocol has after netlink's own.
  static Attributes of(const nlmsghdr& message, size_t extra) {
    return {static_cast<const nlattr*>(mnl_nlmsg_get_payload_offset(&message, extra)),
            reinterpret_cast<const char*>(&message) + message.nlmsg_len};
  }
  static Attributes inside(const nlattr& nest) {
    const auto* first = static_cast<const char*>(mnl_attr_get_payload(&nest));
    return {reinterpret_cast<const nlattr*>(first), first + mnl_attr_get_payload_len(&nest)};
  }

  class Iterator {
   public:
    Iterator(const nlattr* at, const char* tail) : at_(at), tail_(tail) {}
    const nlattr& operator*() const { return *at_; }
    Iterator& operator++() {
      at_ = mnl_attr_next(at_);
      return *this;
    }
    bool at_end() const {
      return !mnl_attr_ok(at_, static_cast<int>(tail_ - reinterpret_cast<const char*>(at_)));
    }

   private:
    const nlattr* at_;
    const char* tail_;
  };
  struct End {
    friend bool operator==(const Iterator& iterator, End) { return iterator.at_end(); }
  };

  Iterator begin() const { return {first_, tail_}; }
  End end() const { return {}; }

 private:
  Attributes(const nlattr* first, const char* tail) : first_(first), tail_(tail) {}

  const nlattr* first_;
  const char* tail_;
};

}  // namespace kernel::netlink
