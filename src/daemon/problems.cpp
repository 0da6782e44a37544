#include "daemon/problems.h"

#include <algorithm>

namespace proxyd {

void ProblemBook::take(const Problems& problems) {
  const auto is_known = [this](const backend::Problem& problem) {
    return std::ranges::any_of(open_,
                               [&](const auto& one) { return one.second.contains(problem); });
  };
  std::vector<backend::Problem> news;
  std::ranges::copy_if(problems.found, std::back_inserter(news),
                       [&](const backend::Problem& problem) { return !is_known(problem); });
  auto& open = open_[problems.family];
  std::erase_if(open, [&](const backend::Problem& problem) {
    return problems.full || problems.services.contains(problem.service);
  });
  open.insert(problems.found.begin(), problems.found.end());
  std::ranges::for_each(news, tell_);
}

}  // namespace proxyd
