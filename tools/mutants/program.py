"""A unit-test program with the mutants of one file in it.

The commands are those of the build: the file is compiled with the flags that it always has, and its object stands
in front of the libraries when the tests are linked, so that the library's own is not used.
"""

import json
import pathlib
import re
import shlex
import shutil
import subprocess

from mutants import places
from mutants.rewrite import rewrite

HEADER = pathlib.Path(__file__).resolve().parent / "mutant.h"
ERROR = re.compile(r"([^\s:]+):(\d+):(\d+): (?:fatal )?error: ")
MENTION = re.compile(r"([^\s:]+):(\d+):(\d+): ")


class Failed(Exception):
    """A command of the build failed; the text is what it said."""


def run(command, folder):
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def must(command, folder):
    code, output = run(command, folder)
    if code != 0:
        raise Failed(f"{shlex.join(map(str, command))}\n{output.strip()}")
    return output


def tests_of(path, root):
    """The program of the unit tests of the room that the file is in."""
    folder = path.parent.relative_to(root / "src")
    return "_".join(folder.parts) + "_test"


class Build:
    """One folder of the build."""

    def __init__(self, folder, root, jobs):
        self.folder = folder
        self._root = root
        self._jobs = jobs

    def configure(self):
        if not (self.folder / "build.ninja").exists():
            must(["cmake", "--preset", "release"], self._root)

    def make(self, target):
        self.configure()
        must(["ninja", "-j", str(self._jobs), target], self.folder)

    def compile_command(self, path):
        """The command for a file, as a list without the file and its object."""
        for entry in json.loads((self.folder / "compile_commands.json").read_text()):
            if pathlib.Path(entry["file"]) == path:
                words = shlex.split(entry["command"])
                return without(without(words, "-o", 2), "-c", 2)
        raise Failed(f"{path}: compile_commands.json does not have it")

    def link_command(self, target):
        """The command that links a program, as a list with "-o" and the program in it."""
        last = must(["ninja", "-t", "commands", target], self.folder).strip().splitlines()[-1]
        words = shlex.split(last)
        return [w for w in words if w not in (":", "&&")]


def without(words, option, count):
    """The words without an option and what belongs to it."""
    at = words.index(option)
    return words[:at] + words[at + count:]


def parse_arguments(command):
    """What of a compiler's command says how a file is to be read."""
    kept, words = [], iter(command[1:])
    for word in words:
        if word in ("-isystem", "-iquote", "-I", "-D"):
            kept += [word, next(words)]
        elif word.startswith(("-I", "-D", "-std=", "-isystem")):
            kept.append(word)
    return kept


class Program:
    """The tests with the mutants in them, in a folder of its own. `mutants` are those that compile."""

    def __init__(self, path, build, target, folder):
        self.path = path
        self.executable = folder / "tests"
        self.dropped = []
        self._build = build
        self._target = target
        self._folder = folder
        self._command = build.compile_command(path)
        self.mutants = places.find(path, parse_arguments(self._command))

    def compile(self, tell):
        """Compiles, again and again, without the mutants that the compiler does not take."""
        copy_path = self._folder / self.path.name
        source = self.path.read_bytes()
        for _ in range(100):
            copy = rewrite(source, self.mutants)
            copy_path.write_bytes(copy.text)
            code, output = run(self._compiler(copy_path), self._build.folder)
            if code == 0:
                return
            wrong = blamed(copy, copy_path, output, self.mutants)
            if not wrong:
                raise Failed(output)
            self._drop(wrong)
            tell(f"compile again without {len(self.dropped)} mutants")
        raise Failed(output)

    def _drop(self, wrong):
        numbers = {m.number for m in wrong}
        self.dropped += [m for m in self.mutants if m.number in numbers]
        self.mutants = [m for m in self.mutants if m.number not in numbers]

    def _compiler(self, copy):
        # Narrowing is allowed, as a wrapped constant is none any more.
        extra = ["-iquote", str(self.path.parent), "-include", str(HEADER), "-w", "-Wno-narrowing"]
        return [*self._command, *extra, "-o", str(self._folder / "mutants.o"), "-c", str(copy)]

    def link(self):
        words = self._build.link_command(self._target)
        at = words.index("-o")
        words[at + 1:at + 2] = [str(self.executable), str(self._folder / "mutants.o")]
        must(words, self._build.folder)


def blamed(copy, path, output, mutants):
    """The mutants that errors of the compiler are about."""
    for pattern in (ERROR, MENTION):
        found = {}
        for name, line, column in pattern.findall(output):
            if pathlib.Path(name).name == path.name:
                around = (missed_constants(copy, int(line), output, mutants) or
                          copy.at(int(line), int(column))[:1] or copy.on_line(int(line)))
                found.update({m.number: m for m in around})
        if found:
            return list(found.values())
    return [m for m in mutants if m.constant is not None]


def missed_constants(copy, line, output, mutants):
    """The mutants of constants that a line with an error needs as such."""
    if "constant" not in output:
        return []
    words = set(re.findall(rb"\w+", copy.text.split(b"\n")[line - 1]))
    return [m for m in mutants if m.constant is not None and m.line != line and m.constant[1].encode() in words]


def require_tools():
    """Raises Unavailable if a program that is needed is not there."""
    for tool in ("cmake", "ninja"):
        if shutil.which(tool) is None:
            raise places.Unavailable(f"{tool} is not installed: tools/setup build installs it")
