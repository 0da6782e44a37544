"""What a run tells at its end."""

from ci import flaky


def text(run):
    """All of it; the last line is "N passed, N failed"."""
    sections = [("Times", _times(run)), ("Flaky", list(flaky.lines(run.flaky)) or ["nothing"]),
                ("Skipped", sorted(set(run.skipped)) or ["nothing"]), ("Left out", _left_out(run) or ["nothing"])]
    if run.failures:
        sections.append(("Failed", run.failures))
    lines = [line for title, body in sections for line in ("", f"=== {title}", *body)]
    return "\n".join([*lines, "", f"{run.passed} passed, {run.failed} failed"])


def _times(run):
    lines = [f"{seconds:6.0f} s  {name}{'' if fine else ' (FAILED)'}" for name, seconds, fine in run.times]
    return [*lines, f"{run.elapsed():6.0f} s  in all"]


def _left_out(run):
    return [f"{suite}: {why}; {last_passed(run.record.get(suite), run.facts.ages.get(suite))}" for suite, why in run.left_out.items()]


def last_passed(entry, age):
    if entry is None:
        return "no pass is on record"
    if age is None:
        return f"last passed at {entry.commit} ({entry.date}), which is not part of this history"
    return f"last passed at {entry.commit} ({entry.date}), {age} commits ago"
