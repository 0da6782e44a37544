// The switches of the mutants. `python3 -m mutants` includes this before the copy of a file in which each place
// that can be changed is wrapped in one of these calls.
//
// The environment says which mutant lives: KP_MUTANT=17. With KP_MUTANT_REACHED=FILE the numbers of the mutants
// that are reached at all are appended to FILE. In constant expressions nothing ever changes.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>

namespace kp_mutant {

inline int number_in_environment() {
  const char* text = std::getenv("KP_MUTANT");
  return text != nullptr ? std::atoi(text) : 0;
}

// Written at once: a test program may end in many ways, and in more than one process.
inline void note_reached(int id) {
  static const char* const file = std::getenv("KP_MUTANT_REACHED");
  if (file == nullptr) return;
  static bool noted[1 << 16];
  if (noted[id]) return;
  noted[id] = true;
  char line[16];
  const int size = std::snprintf(line, sizeof line, "%d\n", id);
  const int fd = ::open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, line, static_cast<size_t>(size)) != size) std::abort();
  ::close(fd);
}

// Is it this one? Never constant, so that what is initialized with it is initialized at run time.
inline bool lives(int id) {
  static const int living = number_in_environment();
  note_reached(id);
  return living == id;
}
constexpr bool on(int id) { return std::is_constant_evaluated() ? false : lives(id); }

template <typename T>
constexpr bool flip(int id, const T& value) {
  return on(id) != static_cast<bool>(value);
}

template <typename A, typename B>
constexpr bool less(int id, const A& a, const B& b) {
  return on(id) ? a <= b : a < b;
}
template <typename A, typename B>
constexpr bool less_equal(int id, const A& a, const B& b) {
  return on(id) ? a < b : a <= b;
}
template <typename A, typename B>
constexpr bool greater(int id, const A& a, const B& b) {
  return on(id) ? a >= b : a > b;
}
template <typename A, typename B>
constexpr bool greater_equal(int id, const A& a, const B& b) {
  return on(id) ? a > b : a >= b;
}

template <typename A, typename B>
constexpr auto plus(int id, const A& a, const B& b) {
  return on(id) ? a - b : a + b;
}
template <typename A, typename B>
constexpr auto minus(int id, const A& a, const B& b) {
  return on(id) ? a + b : a - b;
}

// ++x and --x, x++ and x--.
template <typename T>
constexpr T& up(int id, T& value) {
  return on(id) ? --value : ++value;
}
template <typename T>
constexpr T& down(int id, T& value) {
  return on(id) ? ++value : --value;
}
template <typename T>
constexpr T up_after(int id, T& value) {
  return on(id) ? value-- : value++;
}
template <typename T>
constexpr T down_after(int id, T& value) {
  return on(id) ? value++ : value--;
}

template <typename T>
constexpr T number(int id, T value) {
  return on(id) ? static_cast<T>(value + 1) : value;
}
constexpr const char* text(int id, const char* value) {
  // Never freed: whoever gets it may keep it as long as a literal.
  return on(id) ? (new std::string(std::string(value) + "~"))->c_str() : value;
}
constexpr bool keep(int id) { return !on(id); }

// The same for the initializers of what was constexpr: evaluated when the program starts.
template <typename T>
T late_number(int id, T value) {
  return lives(id) ? static_cast<T>(value + 1) : value;
}
inline const char* late_text(int id, const char* value) {
  return lives(id) ? text(id, value) : value;
}
inline bool late_flip(int id, bool value) { return lives(id) != value; }

}  // namespace kp_mutant
