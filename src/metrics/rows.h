// Rows of the table of metrics: a row is a name, a help text, and the modes that have it.
//
// A row that the mode does not have takes whatever it is told and shows nothing. As in kube-proxy,
// a row with labels shows nothing either until a first set of labels was used. Rows may be used from
// any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace metrics {

enum Modes : unsigned { Iptables = 1, Nftables = 2, Ipvs = 4, AllModes = 7 };

// What rows are put into. `mode` is one of them.
struct Table {
  Modes mode = AllModes;
  prometheus::Registry registry{};
  std::map<std::string, int, std::less<>> by_stability{};  // "ALPHA": how many rows

  // Whether the mode has the row. Help begins with "[ALPHA] " or its like.
  bool admit(unsigned modes, std::string_view help) {
    if ((modes & mode) == 0) return false;
    if (help.starts_with('[')) ++by_stability[std::string(help.substr(1, help.find(']') - 1))];
    return true;
  }
};

enum class Labelled { Yes, No };

class Counters {
 public:
  Counters(Table& table, unsigned modes, const std::string& name, const std::string& help,
           Labelled labelled = Labelled::Yes) {
    if (!table.admit(modes, help)) return;
    family_ = &prometheus::BuildCounter().Name(name).Help(help).Register(table.registry);
    if (labelled == Labelled::No) family_->Add({});
  }
  void add(const prometheus::Labels& labels, double by = 1) {
    if (family_ != nullptr) family_->Add(labels).Increment(by);
  }

 private:
  prometheus::Family<prometheus::Counter>* family_ = nullptr;
};

class Gauges {
 public:
  Gauges(Table& table, unsigned modes, const std::string& name, const std::string& help,
         Labelled labelled = Labelled::Yes) {
    if (!table.admit(modes, help)) return;
    family_ = &prometheus::BuildGauge().Name(name).Help(help).Register(table.registry);
    if (labelled == Labelled::No) family_->Add({});
  }
  void set(const prometheus::Labels& labels, double value) {
    if (family_ != nullptr) family_->Add(labels).Set(value);
  }
  void add(const prometheus::Labels& labels, double by) {
    if (family_ != nullptr) family_->Add(labels).Increment(by);
  }

 private:
  prometheus::Family<prometheus::Gauge>* family_ = nullptr;
};

class Histograms {
 public:
  Histograms(Table& table, unsigned modes, const std::string& name, const std::string& help,
             std::vector<double> bounds, Labelled labelled = Labelled::Yes)
      : bounds_(std::move(bounds)) {
    if (!table.admit(modes, help)) return;
    family_ = &prometheus::BuildHistogram().Name(name).Help(help).Register(table.registry);
    if (labelled == Labelled::No) family_->Add({}, bounds_);
  }
  void observe(const prometheus::Labels& labels, double value) {
    if (family_ != nullptr) family_->Add(labels, bounds_).Observe(value);
  }

 private:
  prometheus::Family<prometheus::Histogram>* family_ = nullptr;
  std::vector<double> bounds_;
};

}  // namespace metrics
