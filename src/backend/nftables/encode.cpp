#include "backend/nftables/encode.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include <algorithm>

#include "backend/nftables/fingerprint.h"
#include "backend/nftables/text.h"

namespace nftables {
namespace {

namespace nft = kernel::nf_tables;
using net::Family;
using nft::Load;
using nft::Register;

struct Header {
  uint32_t source;
  uint32_t destination;
  uint32_t size;
};
Header header(Family family) {
  return family == Family::V4 ? Header{12, 16, 4} : Header{8, 24, 16};
}
constexpr uint32_t kDestinationPort = 2;  // in the headers of TCP, UDP and SCTP

// Turns the statements of one rule into expressions.
class Encoder {
 public:
  explicit Encoder(Family family) : family_(family) {}

  std::vector<nft::Expression> take() { return std::move(out_); }

  void operator()(const New& /*unused*/) { test_bits(NFT_CT_STATE, NF_CT_STATE_BIT(IP_CT_NEW)); }
  void operator()(const Translated& /*unused*/) { test_bits(NFT_CT_STATUS, IPS_DST_NAT); }

  void operator()(const Within& within) {
    const size_t bytes = static_cast<size_t>(within.cidr.prefix_length() + 7) / 8;
    Load address = load(within.field, 0);
    // As nft does it: whole bytes are just not loaded.
    const bool whole = within.cidr.prefix_length() % 8 == 0 && bytes > 0;
    if (whole) address.size = static_cast<uint32_t>(bytes);
    out_.emplace_back(address);
    if (!whole) out_.emplace_back(nft::Mask{netmask(within.cidr)});
    const uint8_t* base = within.cidr.base().data();
    out_.emplace_back(nft::Compare{!within.inverted, {base, base + address.size}});
  }

  void operator()(const Enters& enters) {
    out_.emplace_back(Load::meta(NFT_META_IIFNAME));
    std::vector<uint8_t> name(enters.interface.begin(), enters.interface.end());
    if (!enters.prefix) name.resize(IFNAMSIZ);
    out_.emplace_back(nft::Compare{!enters.inverted, std::move(name)});
  }

  void operator()(const IsLocal& local) {
    out_.emplace_back(nft::LoadAddressType{local.field == Field::SourceAddress});
    out_.emplace_back(nft::Compare::equal(uint32_t{RTN_LOCAL}));
  }

  void operator()(const Marked& marked) {
    out_.emplace_back(Load::meta(NFT_META_MARK));
    out_.emplace_back(nft::Mask::of(marked.bits));
    out_.emplace_back(nft::Compare::unequal(uint32_t{0}));
  }

  void operator()(const Member& member) {
    load_key(member.key, 0);
    look_up(member.set, nft::Lookup::Then::GoOn);
  }
  void operator()(const Dispatch& dispatch) {
    load_key(dispatch.key, 0);
    look_up(dispatch.map, nft::Lookup::Then::Obey);
  }

  void operator()(const Mark& mark) {
    const uint32_t kept = mark.toggle ? ~uint32_t{0} : ~mark.bits;
    out_.emplace_back(Load::meta(NFT_META_MARK));
    out_.emplace_back(nft::Mask{nft::Mask::of(kept).bits, nft::Mask::of(mark.bits).bits});
    out_.emplace_back(nft::SetMark{});
  }

  void operator()(const Verdict& verdict) {
    out_.emplace_back(nft::Obey{code(verdict), verdict.chain});
  }
  void operator()(const Reject& /*unused*/) {
    out_.emplace_back(nft::RejectWithUnreachable{family_});
  }
  void operator()(const Masquerade& /*unused*/) { out_.emplace_back(nft::Masquerade{}); }

  void operator()(const Translate& translate) {
    load_key(translate.key, 0);
    look_up(translate.map, nft::Lookup::Then::Load);
    out_.emplace_back(nft::Redirect{family_, header(family_).size / 4});
  }

  void operator()(const Remember& remember) {
    const Register value = load_key(remember.key, 0);
    load_key(remember.data, value);
    out_.emplace_back(nft::Update{std::string(name(remember.map)), value, remember.timeout});
  }

 private:
  static int32_t code(const Verdict& verdict) {
    switch (verdict.kind) {
      case Verdict::Kind::Drop:
        return NF_DROP;
      case Verdict::Kind::Return:
        return NFT_RETURN;
      case Verdict::Kind::Jump:
        return NFT_JUMP;
      case Verdict::Kind::Goto:
        return NFT_GOTO;
    }
    __builtin_unreachable();
  }

  static std::vector<uint8_t> netmask(const net::Cidr& cidr) {
    std::vector<uint8_t> mask(static_cast<size_t>(cidr.base().bits()) / 8);
    for (int bit = 0; bit < cidr.prefix_length(); ++bit)
      mask[static_cast<size_t>(bit / 8)] |= static_cast<uint8_t>(0x80 >> bit % 8);
    return mask;
  }

  void test_bits(uint32_t key, uint32_t bits) {
    out_.emplace_back(Load::conntrack(key));
    out_.emplace_back(nft::Mask::of(bits));
    out_.emplace_back(nft::Compare::unequal(uint32_t{0}));
  }

  void look_up(SetId set, nft::Lookup::Then then) {
    out_.emplace_back(nft::Lookup{std::string(name(set)), then});
  }

  Load load(Field field, Register to) const {
    const Header ip = header(family_);
    switch (field) {
      case Field::SourceAddress:
        return {Load::From::NetworkHeader, ip.source, ip.size, to};
      case Field::DestinationAddress:
        return {Load::From::NetworkHeader, ip.destination, ip.size, to};
      case Field::Protocol:
        return {Load::From::Meta, NFT_META_L4PROTO, 0, to};
      case Field::DestinationPort:
        return {Load::From::TransportHeader, kDestinationPort, 2, to};
      case Field::OriginalAddress:
        return {Load::From::OriginalTuple,
                family_ == Family::V4 ? uint32_t{NFT_CT_DST_IP} : uint32_t{NFT_CT_DST_IP6}, 0, to};
      case Field::OriginalPort:
        return {Load::From::OriginalTuple, NFT_CT_PROTO_DST, 0, to};
    }
    __builtin_unreachable();
  }

  uint32_t registers_of(Field field) const {
    const bool address = field == Field::SourceAddress || field == Field::DestinationAddress ||
                         field == Field::OriginalAddress;
    return address ? header(family_).size / 4 : 1;
  }

  // Returns the first register behind the key.
  Register load_key(const Key& key, Register to) {
    for (const auto& part : key) {
      if (const auto* draw = std::get_if<Draw>(&part)) {
        out_.emplace_back(nft::Draw{draw->count, draw->offset, to});
        to += 1;
      } else {
        const Field field = std::get<Field>(part);
        out_.emplace_back(load(field, to));
        to += registers_of(field);
      }
    }
    return to;
  }

  Family family_;
  std::vector<nft::Expression> out_;
};

nft::FieldType encode(FieldType field, Family family) {
  switch (field) {
    case FieldType::Address:
      return family == Family::V4 ? nft::FieldType::Ipv4 : nft::FieldType::Ipv6;
    case FieldType::Protocol:
      return nft::FieldType::Protocol;
    case FieldType::Port:
      return nft::FieldType::Port;
    case FieldType::Mark:
      return nft::FieldType::Mark;
  }
  __builtin_unreachable();
}

std::vector<nft::FieldType> encode(const std::vector<FieldType>& fields, Family family) {
  std::vector<nft::FieldType> encoded;
  for (const FieldType field : fields)
    encoded.push_back(encode(field, family));
  return encoded;
}

nft::Set::Holds encode(SetLayout::Holds holds) {
  switch (holds) {
    case SetLayout::Holds::Keys:
      return nft::Set::Holds::Keys;
    case SetLayout::Holds::Verdicts:
      return nft::Set::Holds::Verdicts;
    case SetLayout::Holds::Values:
      return nft::Set::Holds::Values;
  }
  __builtin_unreachable();
}

// The number that follows; nothing behind the last.
std::vector<uint8_t> next(std::span<const uint8_t> number) {
  std::vector<uint8_t> after(number.begin(), number.end());
  for (auto byte = after.rbegin(); byte != after.rend(); ++byte) {
    if (++*byte != 0) return after;
  }
  return {};
}

// Calls write(element) for what stands for the element in netlink: a range of one field is two elements there.
template <typename Write>
void spell(const Element& element, Write&& write) {
  const SetLayout& layout = layout_of(element.set);
  nft::Element out{.key = element.key.view(), .comment = element.comment};
  if (layout.interval && layout.key.size() == 1) {
    write(out);
    const auto behind = next(element.key_end.view());
    if (!behind.empty()) write({.key = behind, .ends_range = true});
    return;
  }
  out.key_end = element.key_end.view();
  std::string chain;
  if (layout.holds == SetLayout::Holds::Verdicts) {
    chain = chain_name(element.target);
    out.verdict = chain.empty() ? NF_DROP : NFT_GOTO;
    out.chain = chain;
  }
  out.value = element.value.view();
  write(out);
}

}  // namespace

std::vector<uint8_t> tag_of(const Rule& rule, Family family) {
  const uint64_t hash = hash_text(rule_text(rule, family));
  std::vector<uint8_t> tag(sizeof hash);
  std::memcpy(tag.data(), &hash, sizeof hash);
  return tag;
}

nft::Rule encode(const Rule& rule, Family family) {
  Encoder encoder(family);
  for (const auto& statement : rule.statements)
    std::visit(encoder, statement);
  return {.expressions = encoder.take(), .comment = rule.comment, .tag = tag_of(rule, family)};
}

nft::Chain encode(const Chain& chain) {
  nft::Chain encoded{.name = chain.name, .comment = std::string(chain.comment)};
  if (chain.hook) {
    encoded.hook =
        nft::Chain::Hook{chain.hook->number, chain.hook->priority, std::string(chain.hook->type)};
  }
  return encoded;
}

nft::Set encode(SetId set, Family family, const Capacity& capacity) {
  const SetLayout& layout = layout_of(set);
  nft::Set encoded{.name = std::string(layout.name), .key = encode(layout.key, family)};
  encoded.holds = encode(layout.holds);
  encoded.value = encode(layout.value, family);
  encoded.interval = layout.interval;
  encoded.dynamic = layout.dynamic;
  encoded.size = declared_size(set, capacity);
  encoded.comment = layout.comment;
  return encoded;
}

void add_element(nft::Batch& batch, const Element& element) {
  spell(element, [&](const nft::Element& one) { batch.add_element(name(element.set), one); });
}

void delete_element(nft::Batch& batch, const Element& element) {
  spell(element, [&](const nft::Element& one) { batch.delete_element(name(element.set), one); });
}

}  // namespace nftables
