#include "relay/balancer.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

namespace relay {
namespace {

// The halves of a product depend on every bit of both factors.
uint64_t fold_product(uint64_t a, uint64_t b) {
  __extension__ using Product = unsigned __int128;
  const Product product = static_cast<Product>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t random_number() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

}  // namespace

IpHash::IpHash() : key_{random_number(), random_number() | 1} {}

size_t IpHash::operator()(const net::IpAddr& ip, uint64_t seed) const {
  std::array<uint64_t, 2> words;
  std::memcpy(words.data(), ip.data(), sizeof words);
  return fold_product(fold_product(words[0] ^ key_[0], words[1] ^ key_[1]) ^ seed, key_[1]);
}

void Affinities::set_ttl(std::chrono::seconds ttl) {
  const std::lock_guard lock(mutex_);
  ttl_ = ttl;
}

void Affinities::note(const net::IpAddr& client, const TargetPtr& target, Time now) {
  const std::lock_guard lock(mutex_);
  record_of(client) = {target, now};
}

void Affinities::forget(const net::IpAddr& client, const TargetPtr& target) {
  const std::lock_guard lock(mutex_);
  const Record* record = find(client);
  if (record != nullptr && record->target == target) recent_.erase(client);
}

void Affinities::forget_stale(Time now) {
  const std::lock_guard lock(mutex_);
  const auto stale = [&](const auto& entry) {
    return entry.second.target->gone() || now - entry.second.last_used >= ttl_;
  };
  boost::unordered::erase_if(recent_, stale);
  boost::unordered::erase_if(earlier_, stale);
}

size_t Affinities::size() const {
  const std::lock_guard lock(mutex_);
  return recent_.size() + earlier_.size();
}

Affinities::Record* Affinities::find(const net::IpAddr& client) {
  const auto recent = recent_.find(client);
  if (recent != recent_.end()) return &recent->second;
  const auto earlier = earlier_.find(client);
  if (earlier == earlier_.end()) return nullptr;
  Record record = std::move(earlier->second);
  earlier_.erase(earlier);
  return &add(client, std::move(record));
}

Affinities::Record& Affinities::record_of(const net::IpAddr& client) {
  Record* known = find(client);
  return known != nullptr ? *known : add(client, {});
}

Affinities::Record& Affinities::add(const net::IpAddr& client, Record record) {
  if (recent_.size() >= max_clients_ / 2) earlier_ = std::exchange(recent_, {});
  return recent_.emplace(client, std::move(record)).first->second;
}

Balancer::Balancer(std::vector<TargetPtr> targets, std::shared_ptr<Affinities> affinities)
    : targets_(std::move(targets)), affinities_(std::move(affinities)) {
  sorted_.reserve(targets_.size());
  for (const TargetPtr& target : targets_)
    sorted_.push_back(target.get());
  std::ranges::sort(sorted_, std::less<>());
}

TargetPtr Balancer::next(const net::IpAddr& client, bool fresh, Time now) {
  if (targets_.empty()) return nullptr;
  if (!affinities_) return in_turn();
  if (!fresh) {
    return affinities_->stick(
        client, now, [this](const Target& target) { return offers(target); },
        [this] { return in_turn(); });
  }
  TargetPtr target = in_turn();
  affinities_->note(client, target, now);
  return target;
}

bool Balancer::offers(const Target& target) const {
  return std::ranges::binary_search(sorted_, &target, std::less<>());
}

void Balancer::does_not_answer(const TargetPtr& target, const net::IpAddr& client) {
  if (affinities_) affinities_->forget(client, target);
}

TargetPtr Balancer::in_turn() {
  return targets_[next_.fetch_add(1, std::memory_order_relaxed) % targets_.size()];
}

}  // namespace relay
