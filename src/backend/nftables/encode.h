// The table in the words of the kernel: rules as expressions, sets and elements as netlink has them.
#pragma once

#include "backend/nftables/elements.h"
#include "backend/nftables/layout.h"
#include "kernel/nf_tables.h"

namespace nftables {

kernel::nf_tables::Rule encode(const Rule& rule, net::Family family);
kernel::nf_tables::Chain encode(const Chain& chain);
kernel::nf_tables::Set encode(SetId set, net::Family family, const Capacity& capacity);

void add_element(kernel::nf_tables::Batch& batch, const Element& element);
void delete_element(kernel::nf_tables::Batch& batch, const Element& element);

// By these a rule is recognised when it is read back.
std::vector<uint8_t> tag_of(const Rule& rule, net::Family family);

}  // namespace nftables
