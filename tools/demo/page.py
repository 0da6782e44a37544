"""Output for people: headings, progress, bars. Colours only on a terminal that wants them."""

import os
import re
import sys
import textwrap
import time

_COLOURS = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "cyan": 36}
WIDTH = 100
_BAR = 24


def paint(text, colour):
    return f"\033[{_CODES[colour]}m{text}\033[0m" if _COLOURS else text


def say(text=""):
    print(text, flush=True)


def heading(number, text):
    say()
    say(paint(f"{number}. {text}", "bold"))


def prose(text, indent="   "):
    """A paragraph, folded to the width of the page."""
    say(textwrap.fill(" ".join(text.split()), WIDTH, initial_indent=indent, subsequent_indent=indent))


def comment(text, indent="     "):
    """A remark on the code() that follows."""
    for line in textwrap.wrap(text, WIDTH, initial_indent=indent + "# ", subsequent_indent=indent + "# "):
        say(paint(line, "dim"))


def code(text, indent="     "):
    """A command or a rule, folded where it is too long for the page; an option stays beside its value."""
    glued = re.sub(r"(?<= )(--?[\w-]+) (?=[^-!])", "\\1\u00a0", text)
    glued = re.sub(r'"[^"]*"', lambda quoted: quoted[0].replace(" ", "\u00a0"), glued)
    folded = textwrap.wrap(glued, WIDTH, initial_indent=indent, subsequent_indent=indent + "    ",
                           break_long_words=False, break_on_hyphens=False)
    for line in folded:
        say(paint(line.replace("\u00a0", " "), "cyan"))


def done(text, began=None):
    took = f"  ({format_seconds(time.monotonic() - began)})" if began is not None else ""
    say(f"   {paint('ok', 'green')}  {text}{paint(took, 'dim')}")


def wrong(text):
    say(f"   {paint('!!', 'red')}  {text}")


def format_seconds(seconds):
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def bar(share):
    """A bar for a share of 0 to 1, in eighths of a character."""
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


def bars(counts, indent, notes=None):
    """One line for each name: how often, as a bar and a number, with a note behind it."""
    total = sum(counts.values()) or 1
    for name, count in sorted(counts.items()):
        note = paint((notes or {}).get(name, ""), "dim")
        say(f"{indent}{name:<11} {bar(count / total):<{_BAR}} {count:>5}  {note}".rstrip())
