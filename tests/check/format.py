"""C++ is laid out as .clang-format says; `make format` does it."""

import shutil
import subprocess
import sys
from pathlib import Path

import tree

PROGRAM = "clang-format-19"

if not shutil.which(PROGRAM):
    tree.skip(f"{PROGRAM} is not installed: tools/setup lint installs it")
sources = tree.files(".h", ".cpp", under=("src", "tests", "bench"))
if not sources:
    tree.finish([], "no C++ to check")
style = f"--style=file:{tree.root() / '.clang-format'}"
run = subprocess.run(
    [PROGRAM, style, "--dry-run", "-Werror", *sources], stderr=subprocess.PIPE, text=True)
if run.returncode != 0:
    wrong = sorted({line.split(":")[0] for line in run.stderr.splitlines() if ": error: " in line})
    wrong = [tree.name(Path(w)) for w in wrong]
    sys.stdout.write(run.stderr if not wrong else "")
    tree.finish([f"{w}: not formatted; run make format" for w in wrong] or [f"{PROGRAM} failed"], "")
tree.finish([], f"{len(sources)} files are formatted")
