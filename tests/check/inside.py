"""No file refers to a place outside the repository: not by a path of somebody's machine, not by a
relative path that climbs out, not by a symbolic link."""

import os
import re

import tree

# Folders of people's machines, at the start of a path.
MACHINE = re.compile(r"(?<![\w./~-])/(?:work|home|root|Users)/[\w.-]")
CLIMBING = re.compile(r"(?<![\w./-])(?:\.\./)+[\w.-][\w./-]*")


def climbs_out(path, relative):
    """Does `relative`, seen from the folder of `path` or from the root, leave the repository?"""
    for start in (path.parent, tree.root()):
        target = os.path.normpath(start / relative)
        if os.path.commonpath([target, tree.root()]) == str(tree.root()):
            return False
    return True


def check(path):
    where = tree.name(path)
    if path.is_symlink():
        if not path.resolve().is_relative_to(tree.root()):
            yield f"{where}: a link to {os.readlink(path)}, outside the repository"
        return
    for number, line in enumerate((tree.text(path) or "").splitlines(), 1):
        for match in MACHINE.finditer(line):
            yield f"{where}:{number}: a path of one machine: {line[match.start():][:40]}"
        for match in CLIMBING.finditer(line):
            if climbs_out(path, match[0]):
                yield f"{where}:{number}: leads out of the repository: {match[0]}"


everything = tree.files()
tree.finish([f for p in everything for f in check(p)],
            f"{len(everything)} files refer to nothing outside the repository")
