"""The files of this repository, for the checks beside this module.

A check is a program: it prints what is wrong, one finding a line, and ends with 0 (fine), 1
(findings) or 77 (cannot run here; ctest calls that skipped). Its one argument, which only
self.py uses, is the folder to look at instead of the repository.
"""

import os
import sys
from pathlib import Path

SKIPPED = 77


def root():
    return Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]


def files(*suffixes, under=("",)):
    """Paths of the files written by people, optionally only with these suffixes or in these folders."""
    found = []
    for folder in under:
        for place, folders, names in os.walk(root() / folder):
            at_root = Path(place) == root()
            folders[:] = [f for f in folders if not is_generated(f, at_root)]
            found += [Path(place) / n for n in names if not suffixes or n.endswith(suffixes)]
    return sorted(found)


def is_generated(folder, at_root):
    if at_root and (folder == "build" or folder.startswith("build-")):
        return True
    return folder in (".git", "__pycache__", ".pytest_cache")


def name(path):
    return str(path.relative_to(root()))


def text(path):
    """The file's text, or None if it is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def finish(findings, fine):
    """Prints the findings, or the sentence `fine`, and ends the program."""
    for finding in findings:
        print(finding)
    if not findings:
        print(fine)
    sys.exit(1 if findings else 0)


def skip(reason):
    print(reason)
    sys.exit(SKIPPED)
