"""shellcheck finds nothing in our shell scripts."""

import shutil
import subprocess

import tree

if not shutil.which("shellcheck"):
    tree.skip("shellcheck is not installed: tools/setup lint installs it")


def is_shell(path):
    if path.suffix in (".sh", ".bash"):
        return True
    with path.open("rb") as file:
        first = file.readline(80)
    return first.startswith(b"#!") and (b"bash" in first or first.rstrip().endswith(b"/sh"))


scripts = [p for p in tree.files() if is_shell(p)]
if not scripts:
    tree.finish([], "no scripts to check")
run = subprocess.run(["shellcheck", "-x", *scripts], stdout=subprocess.PIPE, text=True)
tree.finish(run.stdout.splitlines(), f"{len(scripts)} scripts pass shellcheck")
