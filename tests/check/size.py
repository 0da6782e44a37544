"""Reports functions and files that have grown long: a hint to look for the second idea inside.
Only a report: a long flat table is fine."""

import ast
import re
import sys

import tree

LONG_FUNCTION = 50
LONG_FILE = 500

# In formatted C++ a function outside a class begins in the first column and ends with a "}" there.
NOT_A_FUNCTION = re.compile(r"(#|//|\}|\)|namespace\b|struct\b|class\b|enum\b|union\b|extern\b|$|\s)")


def cpp_functions(lines):
    """(first line, length) of each function that is not defined inside a class."""
    start = None
    for number, line in enumerate(lines, 1):
        if start is None and not NOT_A_FUNCTION.match(line):
            start = number
        if start is not None and line.rstrip().endswith(";") and not line.startswith(" "):
            start = None  # a declaration or a variable
        if start is not None and line.rstrip() in ("}", "};"):
            yield start, number - start + 1
            start = None


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def report(path):
    text = tree.text(path)
    lines = text.splitlines()
    if len(lines) > LONG_FILE:
        yield f"{tree.name(path)}: {len(lines)} lines"
    functions = python_functions(text) if path.suffix == ".py" else cpp_functions(lines)
    for line, length in functions:
        if length > LONG_FUNCTION:
            yield f"{tree.name(path)}:{line}: a function of {length} lines"


sources = tree.files(".h", ".cpp", ".py", under=("src", "tests", "bench", "tools"))
findings = [f for p in sources for f in report(p)]
print("\n".join(findings))
print(f"{len(findings)} long functions (over {LONG_FUNCTION} lines) or files (over {LONG_FILE}) "
      f"in {len(sources)} files")
sys.exit(0)
