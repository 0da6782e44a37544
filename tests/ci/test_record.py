"""tests/last-passed.txt, and what git knows."""

import subprocess

import pytest

from ci import history, record
from ci.record import Entry


@pytest.fixture
def repository(tmp_path):
    """A history of three commits: a, b and c."""
    made = Repository(tmp_path)
    made.git("init", "-q", "-b", "main")
    for name in ("a", "b", "c"):
        made.commit(f"src/{name}.cpp")
    return made


class Repository:
    def __init__(self, folder):
        self.folder = folder

    def git(self, *words):
        settings = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *settings, *words], cwd=self.folder, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def commit(self, path, text="text"):
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", path)

    def at(self, name):
        return self.git("rev-parse", name)


def results(repository, where="HEAD", uncommitted=(), **suites):
    return {"commit": repository.at(where), "uncommitted": list(uncommitted), "date": "2026-11-18",
            "suites": {name: {"outcome": outcome, "seconds": 7.4} for name, outcome in suites.items()}}


def test_a_record_is_read_as_it_was_written(tmp_path):
    entries = {"tests/vm": Entry("0123456789ab", "2026-11-18", 481), "src/*": Entry("ba9876543210", "2026-11-17", 40)}
    (tmp_path / "record.txt").write_text(record.text(entries), encoding="utf-8")
    assert record.read(tmp_path / "record.txt") == entries
    assert record.read(tmp_path / "nothing.txt") == {}


def test_only_what_has_passed_is_recorded(repository):
    before = {"one": Entry("old", "2026-01-01", 1), "two": Entry("old", "2026-01-01", 1), "gone": Entry("old", "2026-01-01", 1)}
    merged = record.merged(before, results(repository, one="passed", two="failed", three="skipped"), {"one", "two", "three"})
    assert merged == {"one": Entry(repository.at("HEAD")[:12], "2026-11-18", 7), "two": before["two"]}


def test_results_of_another_tree_are_refused(repository):
    git = history.Git(repository.folder)
    record.check(results(repository), git)
    with pytest.raises(record.Wrong, match="src/c.cpp differ"):
        record.check(results(repository, "HEAD~1"), git)
    with pytest.raises(record.Wrong, match="Makefile differ"):
        record.check(results(repository, uncommitted=["Makefile"]), git)
    with pytest.raises(record.Wrong, match="not part of this history"):
        record.check({**results(repository), "commit": "0" * 40}, git)


def test_a_commit_of_documents_and_of_the_record_changes_nothing(repository):
    tested = results(repository)
    repository.commit("docs/testing.md")
    repository.commit("tests/last-passed.txt")
    record.check(tested, history.Git(repository.folder))


def test_the_change_is_what_came_after_the_newest_commit_on_record(repository, monkeypatch):
    monkeypatch.delenv("KP_CI_BASE", raising=False)
    git = history.Git(repository.folder)
    entries = {"one": Entry(repository.at("HEAD~2")[:12], "d", 1), "two": Entry(repository.at("HEAD~1")[:12], "d", 1),
               "lost": Entry("0123456789ab", "d", 1)}
    facts = history.facts(git, entries)
    assert (facts.changed, facts.ages, facts.commits) == (frozenset({"src/c.cpp"}), {"one": 2, "two": 1}, 3)
    monkeypatch.setenv("KP_CI_BASE", repository.at("HEAD~2"))
    assert history.facts(git, entries).changed == {"src/b.cpp", "src/c.cpp"}


def test_what_is_not_committed_is_part_of_the_change(repository, monkeypatch):
    monkeypatch.setenv("KP_CI_BASE", "HEAD")
    (repository.folder / "src" / "a.cpp").write_text("other", encoding="utf-8")
    git = history.Git(repository.folder)
    assert history.facts(git, {}).changed == {"src/a.cpp"} and git.uncommitted() == ["src/a.cpp"]


def test_without_a_record_or_a_history_nothing_is_known(repository, tmp_path_factory, monkeypatch):
    monkeypatch.delenv("KP_CI_BASE", raising=False)
    assert history.facts(history.Git(repository.folder), {}).changed is None
    bare = history.Git(tmp_path_factory.mktemp("none"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", "/")
    assert history.facts(bare, {"one": Entry("0123456789ab", "d", 1)}).changed is None


def test_a_shallow_clone_still_takes_turns(repository, tmp_path_factory, monkeypatch):
    monkeypatch.delenv("KP_CI_BASE", raising=False)
    clone = tmp_path_factory.mktemp("clone")
    repository.git("clone", "-q", "--depth", "1", f"file://{repository.folder}", str(clone))
    facts = history.facts(history.Git(clone), {"one": Entry(repository.at("HEAD~1")[:12], "d", 1)})
    assert facts.changed is None and facts.commits > 3
