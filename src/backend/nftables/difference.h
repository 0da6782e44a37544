// What a few Services that have changed change in the table. Pure.
#pragma once

#include <deque>
#include <vector>

#include "backend/nftables/affinity.h"
#include "backend/nftables/contents.h"
#include "model/store.h"

namespace nftables {

// What is to be written, and what it refers to.
struct Difference {
  // One Service that is dirty.
  struct ServiceChange {
    model::ServiceKey key;
    const ServiceElements* before;
    const ServiceElements* now;
  };

  explicit Difference(net::Family family) : judge(family, false) {}

  std::vector<ServiceChange> services;
  std::deque<plan::ServicePlan> plans;
  std::deque<ServiceElements> elements;
  std::vector<Element> node;  // as they were before
  Changes changes;
  AffinityJudge judge;  // of entries that may not hold any more
};

// Makes `contents`, in which the table is as it was, into those of the new snapshot, of which only what is dirty differs.
void compare(Contents& contents, const model::SnapshotPtr& snapshot, const model::DirtySet& dirty,
             const Options& options, Difference& difference);

// For all entries of session affinity. `rewritten`: it is not known what was there before.
AffinityJudge judge_of_all(const Contents& contents, const Options& options, bool rewritten);

}  // namespace nftables
