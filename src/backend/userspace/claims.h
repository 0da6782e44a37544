// Ports of this node that Services have, held so that no process gets them: it would never see a packet.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/userspace/sockets.h"
#include "base/fd.h"
#include "base/result.h"

namespace userspace {

// "10.0.0.1:80/TCP"; "<nil>:30080/TCP" for all addresses.
std::string str(const Place& place);

class Claims {
 public:
  // A Service port: its name, and a protocol, as two may have one name.
  struct Owner {
    std::string name;
    net::Protocol protocol = net::Protocol::Tcp;

    auto operator<=>(const Owner&) const = default;
  };
  // Takes the place for the owner; one that it has already is fine.
  base::Result<> take(const Place& place, const Owner& owner);
  // Gives up what the owner has and does not want any more.
  void keep_only(const std::vector<Place>& wanted, const Owner& owner);

  size_t size() const { return claims_.size(); }

 private:
  struct Claim {
    Owner owner;
    base::Fd socket;
  };
  std::map<Place, Claim> claims_;
  std::map<Owner, std::vector<Place>> by_owner_;
};

}  // namespace userspace
