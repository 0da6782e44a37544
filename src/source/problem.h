// What is wrong with a manifest, said so that a person finds the place.
#pragma once

#include <string>
#include <vector>

#include "codec/value.h"

namespace source {

struct Problem {
  codec::Position at;
  std::string object;  // "Service default/web", as far as it is known
  std::string field;   // "spec.ports[0].port"; empty if it is about the whole
  std::string text;    // "must be between 1 and 65535, got 70000"
  bool fatal = false;  // the object is not usable
};

// Collects problems. A hostile file can have millions of mistakes: of the fatal ones and of the
// others, at most kMost are kept and the next says that there are more.
class Problems {
 public:
  static constexpr size_t kMost = 100;

  explicit Problems(std::vector<Problem>& out) : out_(out) {
    for (const Problem& problem : out)
      ++kept(problem.fatal);
  }

  // Later problems are about this object. Forgets that there was a fatal one.
  void begin_object(std::string object) {
    object_ = std::move(object);
    fatal_ = false;
  }

  void add(codec::Position at, std::string field, std::string text, bool fatal) {
    fatal_ = fatal_ || fatal;
    const size_t before = kept(fatal)++;
    if (before < kMost) {
      out_.push_back({at, object_, std::move(field), std::move(text), fatal});
    } else if (before == kMost) {
      out_.push_back({at, {}, {}, "more problems from here on, not listed", fatal});
    }
  }

  // Whether a fatal one came since begin_object.
  bool fatal() const { return fatal_; }

 private:
  size_t& kept(bool fatal) { return fatal ? kept_fatal_ : kept_other_; }

  std::vector<Problem>& out_;
  std::string object_;
  bool fatal_ = false;
  size_t kept_fatal_ = 0;
  size_t kept_other_ = 0;
};

}  // namespace source
