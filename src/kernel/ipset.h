// Sets of netfilter (ipset), over netlink.
//
// Blocks; used on a sync thread and by one-shot commands.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernel/netlink.h"
#include "net/ip.h"

namespace kernel {

enum class SetType : uint8_t { HashIp, HashIpPort, HashIpPortIp, HashIpPortNet, BitmapPort };
// "hash:ip,port"
std::string_view name(SetType type);

// A member; which fields count is up to the type of the set. The others are as they are here.
struct SetEntry {
  net::IpAddr ip;
  net::Protocol protocol = net::Protocol::Tcp;
  uint16_t port = 0;
  net::Cidr
      other;  // the second address of HashIpPortIp (with full length), or the network of HashIpPortNet

  auto operator<=>(const SetEntry&) const = default;
};

struct SetListing;

class Ipset {
 public:
  // Unsupported if this kernel has no sets; Permission if we may not ask.
  static base::Result<Ipset> open();

  struct Set {
    std::string name;
    uint32_t references = 0;  // by rules, and by sets of sets
  };
  // All sets of this network namespace, without their members.
  base::Result<std::vector<Set>> list();

  // Removes a set with all its members. NotFound if there is none of that name; Busy while a rule uses it, which
  // iptables-nft may let it do for some milliseconds after the rule is gone: the kernel frees rules later.
  base::Result<> destroy(const std::string& name);

  // Has this kernel sets of that type? Loads the module, if there is one. Unsupported, naming the module, if not.
  base::Result<> check(SetType type, net::Family family);

  // As ipset(8) makes it when nothing is said about its size. One that is there already is left alone. Exists if
  // there is one of that name, and of another kind.
  base::Result<> create(const std::string& name, SetType type, net::Family family);

  // In no order. NotFound if there is no such set; Exists if it is of another type.
  base::Result<std::vector<SetEntry>> members(const std::string& name, SetType type);

  // Changes, in order. Each is an act of its own. Adding what is there, or removing what is not, is no failure.
  class Changes {
   public:
    // The protocol that open() has found out is written by apply().
    void add(const std::string& set, SetType type, const SetEntry& entry);
    void remove(const std::string& set, SetType type, const SetEntry& entry);

    size_t size() const { return requests_.size(); }
    bool empty() const { return requests_.size() == 0; }

   private:
    friend class Ipset;
    netlink::Requests requests_;
  };
  // Which changes failed, by their place among `changes` from 0 on.
  base::Result<std::vector<netlink::RequestFailure>> apply(Changes changes);

  // Messages sent so far.
  uint64_t sent() const { return conversation_.sent(); }

  // The kernel's error, in words: it has numbers of its own here ("the set is full").
  static std::string explain(int number);

 private:
  Ipset(netlink::Conversation conversation, uint8_t protocol)
      : conversation_(std::move(conversation)), protocol_(protocol) {}

  uint32_t references_of(const std::string& name);
  base::Result<uint8_t> newest_revision(SetType type, net::Family family);
  base::Result<> dump(const std::string& name, uint32_t flags,
                      const std::function<void(const nlmsghdr&)>& each);
  // NotFound if there is no such set.
  base::Result<SetListing> look_at(const std::string& name);

  netlink::Conversation conversation_;
  uint8_t protocol_ = 0;  // the version that the kernel and we understand
};

}  // namespace kernel
