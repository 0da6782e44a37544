"""The copy of a file that holds all mutants, each behind a switch. Lines keep their numbers."""

import dataclasses


@dataclasses.dataclass
class Copy:
    text: bytes
    spans: list  # (start, end, mutant): where in the text what belongs to a mutant stands

    def at(self, line, column):
        """The mutants around a place of the copy, the innermost first."""
        lines = self.text.split(b"\n")
        offset = sum(len(l) + 1 for l in lines[:line - 1]) + column - 1
        around = [(end - start, m.number, m) for start, end, m in self.spans if start <= offset < end]
        return [mutant for _, _, mutant in sorted(around, key=lambda a: a[:2])]

    def on_line(self, line):
        """The mutants that begin in a line."""
        return [m for m in {id(s[2]): s[2] for s in self.spans}.values() if m.line == line]


def rewrite(source, mutants):
    """The copy of `source` (bytes) with these mutants."""
    inserts, gaps = [], {}
    for mutant in mutants:
        for edit in mutant.edits:
            if edit.instead is not None:
                gaps[edit.start] = (edit.end, edit.instead.encode())
                continue
            length = edit.end - edit.start
            # What ends here comes before what begins here; the outer begins first and ends last.
            inserts.append((edit.start, 1, -length, mutant.number, edit.before, mutant))
            inserts.append((edit.end, 0, length, -mutant.number, edit.after, mutant))
        if mutant.constant is not None:
            start = mutant.constant[0]
            end = start + len("constexpr")
            gaps[start] = (end, b"" if source[end:].lstrip().startswith(b"const ") else b"const")
    inserts.sort(key=lambda i: i[:4])
    return _assemble(source, inserts, gaps)


def _assemble(source, inserts, gaps):
    out, spans, opened = bytearray(), [], {}
    position = 0

    def copy_to(end):
        nonlocal position
        while position < end:
            if position in gaps:
                position, instead = gaps[position]
                out.extend(instead)
            else:
                out.append(source[position])
                position += 1

    for offset, begins, length, _, text, mutant in inserts:
        copy_to(offset)
        key = (mutant.number, offset if begins else offset - length, abs(length))
        if begins:
            opened[key] = len(out)
        out.extend(text.replace("@", str(mutant.number)).encode())
        if not begins:
            spans.append((opened[key], len(out), mutant))
    copy_to(len(source))
    return Copy(bytes(out), spans)
