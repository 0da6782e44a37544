"""Mutants that no test can notice, from equivalent.txt: each with the reason.

    src/plan/gone.cpp
      behind: static_cast<size_t>(end.ip.bits()) / 8);
      line: return std::hash<std::string_view>{}(bytes) * 31 + end.port;
      mutant: 31 -> 31 + 1
      mutant: ...
      reason: any number makes a hash

A path holds for the entries below it, up to the next one. The line is that of the source, without its indentation,
so that entries survive changes elsewhere in the file; `behind`, which may be left out, is the one above it.
"""

import dataclasses


class Wrong(Exception):
    """A line of the file cannot be understood."""


@dataclasses.dataclass
class Entry:
    behind: str | None = None
    line: str | None = None
    mutants: list = dataclasses.field(default_factory=list)
    reason: str = ""

    def fits(self, lines, number):
        """Is it about the line of this number?"""
        above = lines[number - 2].strip() if number > 1 else ""
        return lines[number - 1].strip() == self.line and self.behind in (None, above)


def read(path, name):
    """The entries of the file `name`."""
    entries, current = [], ""
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = raw.strip()
        if not text or text.startswith("#"):
            continue
        if not raw.startswith(" "):
            current = text
        elif current == name:
            _add(entries, text, f"{path.name}:{number}")
        elif not current:
            raise Wrong(f"{path.name}:{number}: an entry without a file")
    return entries


def _add(entries, text, where):
    field, _, value = text.partition(": ")
    if field == "behind":
        entries.append(Entry(behind=value))
    elif field == "line":
        if not entries or entries[-1].line is not None:
            entries.append(Entry())
        entries[-1].line = value
    elif field == "mutant" and entries:
        entries[-1].mutants.append(value)
    elif field == "reason" and entries:
        entries[-1].reason = value
    else:
        raise Wrong(f"{where}: {text}: not behind:, line:, mutant: or reason:")


def match(entries, mutants, source_lines):
    """Number of a mutant -> reason, and what of the entries fits no mutant."""
    reasons, unused = {}, []
    for entry in entries:
        here = [m for m in mutants if entry.fits(source_lines, m.line)]
        for text in entry.mutants:
            fitting = [m for m in here if m.text() == text]
            reasons.update({m.number: entry.reason for m in fitting})
            if not fitting:
                unused.append(f"{entry.line}: {text}")
    return reasons, unused
