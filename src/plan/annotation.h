// Sentences about annotations that are not understood.
#pragma once

#include <string>
#include <string_view>

namespace plan {

// Somebody else's text for a line of ours: in quotes, and cut if it is too long.
std::string shown(std::string_view text);

// "annotation NAME: TEXT"
std::string annotation_problem(std::string_view annotation, const std::string& text);

}  // namespace plan
