"""The tool behind `make mutants`: what it finds in a small file, and which of it the tests of that file notice."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from lab.wait import wait_for
from mutants import equivalent, places, rewrite, trials

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(TOOLS)}

FILE = """\
#include <string>
#define TWICE(x) ((x) + (x))
namespace {
constexpr int kMost = 10;
constexpr const char* kWords[] = {"few", "many"};
}  // namespace
static_assert(sizeof(int) >= 2);
int count = 0;
int clamped(int value) {
  if (value > kMost) return kMost;
  return TWICE(value) - value;
}
std::string word(int value) {
  ++count;
  return value < 3 && value >= 0 ? kWords[0] : kWords[1];
}
bool never() { return true; }
constexpr int kLength = 4;
int numbers[kLength];
char letters[] = "abc";
"""

# A test program as GoogleTest makes them, as far as the tool asks. WAIT makes it wait in the first suite.
TESTS = r"""
#include <unistd.h>
#include <cstdlib>
#include <cstring>
#include <string>
int clamped(int value);
std::string word(int value);
int main(int, char** arguments) {
  if (std::strcmp(arguments[1], "--gtest_list_tests") == 0) {
    std::string text = "Running main()\nClamped.\n  Stays\nWord.\n  Fits  # comment\n";
    return ::write(1, text.data(), text.size()) < 0;
  }
  bool fine = true;
  const std::string filter = arguments[3];
  if (filter.find("Clamped.*") != std::string::npos) {
    if (const char* file = std::getenv("WAIT")) {
      if (std::freopen(file, "w", stderr) == nullptr) return 1;
      ::pause();
    }
    fine = clamped(5) == 5 && clamped(100) == 10;
  }
  if (filter.find("Word.*") != std::string::npos) {
    fine = fine && word(1) == "few" && word(7) == "many";
  }
  return fine ? 0 : 1;
}
"""

NINJA = """\
rule cxx
  command = c++ -std=c++20 -o $out -c $in
rule archive
  command = rm -f $out && ar cr $out $in
rule link
  command = : && c++ -O0 room_test.o -o $out libroom.a && :
build file.o: cxx {root}/src/room/file.cpp
build room_test.o: cxx {root}/src/room/file_test.cpp
build libroom.a: archive file.o
build room_test: link room_test.o libroom.a
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A repository with one room, and its build."""
    root = tmp_path_factory.mktemp("tree")
    room = root / "src" / "room"
    room.mkdir(parents=True)
    (room / "file.cpp").write_text(FILE)
    (room / "file_test.cpp").write_text("#include <cstdio>\n" + TESTS)
    build = root / "build"
    build.mkdir()
    (build / "build.ninja").write_text(NINJA.format(root=root))
    commands = subprocess.run(["ninja", "-t", "compdb", "cxx"], cwd=build, stdout=subprocess.PIPE, check=True)
    (build / "compile_commands.json").write_bytes(commands.stdout)
    (root / "equivalent.txt").write_text("# none\n")
    return root


def command(tree, *arguments):
    return [sys.executable, "-B", "-m", "mutants", str(tree / "src" / "room" / "file.cpp"), "--root", str(tree),
            "--equivalent", str(tree / "equivalent.txt"), *arguments]


def run(tree, *arguments):
    return subprocess.run(command(tree, *arguments), cwd=tree, env=ENVIRONMENT, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)


@pytest.fixture(scope="module")
def result(tree):
    """Verdict -> places, of one run."""
    done = run(tree, "-o", str(tree / "result.json"))
    assert done.returncode == 0, done.stderr
    assert "build room_test" in done.stderr
    found = json.loads((tree / "result.json").read_text())[0]
    summary = f"src/room/file.cpp: {found['mutants']} mutants: {len(found['killed'])} killed, "
    assert done.stdout.splitlines()[-1].startswith(summary)
    return found


def test_finds_conditions_constants_and_statements(tree):
    listed = run(tree, "--list").stdout
    for expected in ["4:23: 10 -> 10 + 1", "5:35: \"few\" -> \"few~\"", "10:7: value > kMost -> value >= kMost",
                     "10:7: value > kMost -> !(value > kMost)", "11:10: TWICE(value) - value -> TWICE(value) + value",
                     "14:3: ++count -> --count", "14:3: ++count -> (nothing)",
                     "15:10: value < 3 && value >= 0 -> value < 3 || value >= 0", "17:23: true -> false"]:
        assert f"src/room/file.cpp:{expected}\n" in listed


def test_leaves_macros_and_constant_expressions_alone(tree):
    listed = run(tree, "--list").stdout
    assert "(value) + (value)" not in listed
    assert "cpp:7:" not in listed


def test_says_what_the_tests_notice(result):
    assert "src/room/file.cpp:4:23: 10 -> 10 + 1" in result["killed"]
    assert "src/room/file.cpp:5:42: \"many\" -> \"many~\"" in result["killed"]
    assert "src/room/file.cpp:10:7: value > kMost -> !(value > kMost)" in result["killed"]


def test_says_what_no_test_notices(result):
    assert "src/room/file.cpp:15:18: 3 -> 3 + 1" in result["survived"]
    assert "src/room/file.cpp:14:3: ++count -> (nothing)" in result["survived"]


def test_says_what_no_test_reaches(result):
    assert result["not reached"] == ["src/room/file.cpp:17:23: true -> false"]
    assert "src/room/file.cpp:8:13: 0 -> 0 + 1" in result["survived"]


def test_says_what_does_not_compile(result):
    assert result["dropped"] == ["src/room/file.cpp:18:25: 4 -> 4 + 1", "src/room/file.cpp:20:18: \"abc\" -> \"abc~\""]


def test_a_suite_that_fails_and_reaches_nothing_is_left_out(tmp_path):
    program = tmp_path / "tests"
    program.write_text('#!/bin/sh\n[ "$1" != --gtest_list_tests ] || { echo One.; exit 0; }\nexit 1\n')
    program.chmod(0o755)
    told = []
    assert trials.Tests(program, tmp_path, tmp_path).record("*", told.append) == {}
    assert told[-1] == "One fails, but reaches no mutant"


def test_a_program_without_end_has_noticed(tmp_path, monkeypatch):
    program = tmp_path / "tests"
    program.write_text('#!/bin/sh\n[ "$1" = --gtest_list_tests ] && echo One.\n[ "$KP_MUTANT" = 1 ] && exec sleep 1000\n'
                       'exit 0\n')
    program.chmod(0o755)
    monkeypatch.setattr(trials, "LEAST_SECONDS", 0.5)
    monkeypatch.setattr(trials, "TIMES_SLOWER", 0)
    tests = trials.Tests(program, tmp_path, tmp_path)
    assert tests.record("*", print) == {}
    assert tests.notice(places.Mutant(1, 1, "a", "b", [], number=1), ["One."])


def test_an_equivalent_mutant_is_not_told_again(tree):
    file = tree / "marked.txt"
    file.write_text("src/room/file.cpp\n  line: if (value > kMost) return kMost;\n"
                    "  mutant: value > kMost -> value >= kMost\n  mutant: value -> nothing\n"
                    "  mutant: value > kMost -> !(value > kMost)\n  reason: at the limit both are the same\n")
    done = run(tree, "--equivalent", str(file))
    assert "value > kMost -> value >= kMost" not in done.stdout
    assert "1 equivalent" in done.stdout
    assert "no such mutant: if (value > kMost) return kMost;: value -> nothing" in done.stdout
    assert "value > kMost -> !(value > kMost): marked as equivalent, but a test notices it" in done.stdout


def test_an_interrupt_leaves_nothing_behind(tree):
    waiting = tree / "waiting"
    with subprocess.Popen(command(tree), cwd=tree, env={**ENVIRONMENT, "WAIT": str(waiting)},
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as tool:
        wait_for(lambda: waiting.exists() or tool.poll() is not None, "the test program runs", seconds=300)
        tool.send_signal(signal.SIGINT)
        assert "interrupted" in tool.communicate(timeout=300)[1]
    assert tool.returncode == 130
    assert list((tree / "build").glob("mutants-*")) == []
    wait_for(lambda: not runs(str(tree / "build" / "mutants-")), "the test program ends", seconds=300)


def runs(start_of_path):
    """Does a program run whose path begins like this?"""
    for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if process.read_text().startswith(start_of_path):
                return True
        except OSError:
            pass
    return False


def test_tests_that_fail_anyway_are_told(tree):
    broken = tree / "src" / "room" / "file_test.cpp"
    text = broken.read_text()
    broken.write_text(text.replace("clamped(5) == 5", "clamped(5) == 6"))
    try:
        done = run(tree)
    finally:
        broken.write_text(text)
    assert done.returncode == 1
    assert "Clamped fails without any mutant" in done.stderr


def test_a_copy_keeps_its_lines_and_nests_what_is_around_one_place(tmp_path):
    file = tmp_path / "x.cpp"
    file.write_text("bool f(int a, int b) {\n  return a < b &&\n         b != 4;\n}\n")
    mutants = places.find(file, ["-std=c++20"])
    copy = rewrite.rewrite(file.read_bytes(), mutants)
    lines = copy.text.decode().splitlines()
    assert len(lines) == 4
    assert lines[2].strip().endswith(";") and "kp_mutant::number(" in lines[2]
    assert lines[1].count("(") - lines[1].count(")") == lines[2].count(")") - lines[2].count("(")
    innermost = copy.at(3, lines[2].index("kp_mutant::number(") + 1)[0]
    assert innermost.text() == "4 -> 4 + 1"


def test_a_wrong_line_among_the_equivalent_ones_is_told(tmp_path):
    file = tmp_path / "equivalent.txt"
    file.write_text("src/a.cpp\n  line: x\n  because: y\n")
    with pytest.raises(equivalent.Wrong, match="equivalent.txt:3"):
        equivalent.read(file, "src/a.cpp")
