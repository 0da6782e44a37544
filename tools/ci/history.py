"""What git knows about this tree."""

import os
import subprocess

from ci import table
from ci.plan import Facts


class Git:
    def __init__(self, root=table.ROOT):
        self._root = root

    def _ask(self, *words):
        """What it prints, or None if it fails, or is not there."""
        try:
            done = subprocess.run(["git", "-c", "safe.directory=*", *words], cwd=self._root, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, check=False)
        except FileNotFoundError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    def head(self):
        return self._ask("rev-parse", "HEAD")

    def commits(self):
        """How many there are; in a clone that has but a few of them, a number that depends on the last."""
        if self._ask("rev-parse", "--is-shallow-repository") == "false":
            return int(self._ask("rev-list", "--count", "HEAD") or 0)
        return int((self.head() or "0")[:8], 16)

    def since(self, commit):
        """How many commits came after it; None if it is not part of this history."""
        if self._ask("merge-base", "--is-ancestor", commit, "HEAD") is None:
            return None
        count = self._ask("rev-list", "--count", f"{commit}..HEAD")
        return None if count is None else int(count)

    def changed(self, base, until=None):
        """Files that differ between a commit and another one, or the folder as it is now; None if it is not known."""
        text = self._ask("diff", "--name-only", "--no-renames", base, *([until] if until else []))
        return None if text is None else frozenset(text.splitlines())

    def uncommitted(self):
        return sorted(self.changed("HEAD") or [])


def ages(git, record):
    """{suite: commits since it last passed}, without those whose commit is not part of this history."""
    counts = {commit: git.since(commit) for commit in {entry.commit for entry in record.values()}}
    return {suite: counts[entry.commit] for suite, entry in record.items() if counts[entry.commit] is not None}


def facts(git, record):
    known = ages(git, record)
    base = os.environ.get("KP_CI_BASE")
    if not base and known:
        base = record[min(known, key=known.get)].commit
    return Facts(git.changed(base) if base else None, known, git.commits())
