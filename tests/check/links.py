"""Relative links in our documents lead to a file that is there, and to a heading of it."""

import re

import tree

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def prose(path):
    """The document without its code, line numbers kept."""
    return CODE.sub(lambda m: "\n" * m[0].count("\n"), tree.text(path))


def anchors(path):
    """The names that headings get, as web front ends for git make them."""
    headings = re.findall(r"^#+ +(.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h.lower()).strip().replace(" ", "-") for h in headings}


def check(path):
    for number, line in enumerate(prose(path).splitlines(), 1):
        for link in LINK.findall(line):
            if re.match(r"[a-z]+:", link):
                continue
            where = f"{tree.name(path)}:{number}: {link}"
            file, _, heading = link.partition("#")
            target = path.parent / file if file else path
            if not target.exists():
                yield f"{where}: no such file"
            elif heading and target.suffix == ".md" and heading not in anchors(target):
                yield f"{where}: no such heading"


documents = tree.files(".md")
tree.finish([f for d in documents for f in check(d)], f"the links of {len(documents)} documents hold")
