"""Each room includes only what it may use.

CMakeLists.txt says which rooms there are, from the ground up, and what each uses. Linking cannot
hold anybody to that, as it is transitive; this does. On top of it stand the rules that no edit of
CMakeLists.txt may change:

- model and plan, and every render.cpp and diff.cpp, reach neither event, http nor kernel, not even
  through a header of their own: what they do is values in, values out.
- only daemon, serve and cli log. config holds the settings of the log, so it may include its types; it
  may not call it.
"""

import re

import tree

IO_ROOMS = {"event", "http", "kernel"}
PURE_ROOMS = {"model", "plan"}
PURE_FILES = {"render", "diff"}
LOGGING_ROOMS = {"daemon", "serve", "cli", "log"}
LOG_CALL = re.compile(r"\bklog::(info|verbose|warning|error)\(")


def declared_rooms():
    """Room -> what it may use, and findings about the declarations themselves."""
    rooms, findings = {}, []
    cmake = tree.text(tree.root() / "CMakeLists.txt")
    for match in re.finditer(r"^kp_room\(([^)]*)\)", cmake, re.MULTILINE):
        words = match[1].split()
        room = words[0]
        uses = {w for w in words[1:] if "::" not in w} - {"USES", "ASIO"}
        for use in sorted(uses - rooms.keys()):
            findings.append(f"CMakeLists.txt: {room} uses {use}, which does not stand below it")
        rooms[room] = uses
    add_hallways(rooms)
    return rooms, findings


def add_hallways(rooms):
    """backend/ itself, where backend/x is a room: headers that its rooms share with whoever uses one.

    They may use what every one of the rooms may.
    """
    halls = {room.rpartition("/")[0] for room in rooms} - {""} - rooms.keys()
    for hall in halls:
        inside = {room for room in rooms if room.startswith(hall + "/")}
        for room, uses in rooms.items():
            if room in inside or uses & inside:
                uses.add(hall)
        rooms[hall] = set.intersection(*(rooms[room] for room in inside)) - {hall}


def room_of(path, rooms):
    """The room that src/PATH lies in."""
    fitting = [r for r in rooms if path.startswith(r + "/")]
    return max(fitting, key=len) if fitting else None


def includes_of(path):
    """(line number, what is included) for each include of one of our own files."""
    lines = tree.text(path).splitlines()
    for number, line in enumerate(lines, 1):
        if match := re.match(r'\s*#\s*include\s+"([^"]+)"', line):
            yield number, match[1]


def check_direct(path, room, rooms):
    """One file's own includes against the rooms that it may use."""
    where = tree.name(path)
    for number, included in includes_of(path):
        target = room_of(included, rooms)
        if target is None:
            if not (tree.root() / "tests" / included).is_file():  # support/... is fine
                yield f"{where}:{number}: \"{included}\": write the path from src/ on, room first"
        elif target != room and target not in rooms[room]:
            yield f"{where}:{number}: {room} may not use {target} (CMakeLists.txt says what it may)"
        elif target == "log" and room not in LOGGING_ROOMS | {"config"}:
            yield f"{where}:{number}: {room} may not log; return the error instead"


def check_log_calls(path, room):
    if room not in LOGGING_ROOMS:
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            if LOG_CALL.search(line):
                yield f"{tree.name(path)}:{number}: {room} may not log; return the error instead"


def check_pure(path, rooms):
    """A pure file reaches no I/O, through however many of our own headers."""
    seen, todo = set(), [(path, tree.name(path))]
    while todo:
        current, way = todo.pop()
        for _, included in includes_of(current):
            target = room_of(included, rooms)
            step = f"{way} -> {included}"
            if target in IO_ROOMS:
                yield f"{step}: values in, values out: no {target} here"
            header = tree.root() / "src" / included
            if header not in seen and header.is_file():
                seen.add(header)
                todo.append((header, step))


def main():
    rooms, findings = declared_rooms()
    sources = tree.files(".h", ".cpp", under=("src",))
    for path in sources:
        inside = str(path.relative_to(tree.root() / "src"))
        room = room_of(inside, rooms)
        if room is None:
            findings.append(f"{tree.name(path)}: no kp_room() in CMakeLists.txt has this folder")
            continue
        findings += check_direct(path, room, rooms)
        findings += check_log_calls(path, room)
        if room in PURE_ROOMS or (room.startswith("backend/") and path.stem in PURE_FILES):
            findings += check_pure(path, rooms)
    tree.finish(findings, f"{len(sources)} files in {len(rooms)} rooms include what they may")


main()
