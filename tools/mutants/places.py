"""What can be changed in one C++ file: a list of Mutant, found with libclang.

Only the file itself is looked at, not its headers, and nothing that comes out of a macro. What is constant for the
compiler (case labels, template arguments, the lengths of arrays) stays as it is. Variables that are constexpr
become const, so that their values can change too.
"""

import dataclasses
import pathlib
import re

try:
    from clang import cindex
    from clang.cindex import CursorKind as Kind, TypeKind
except ImportError:
    cindex = None

ORDERS = {"<": ("less", "<="), "<=": ("less_equal", "<"), ">": ("greater", ">="), ">=": ("greater_equal", ">")}
SUMS = {"+": ("plus", "-"), "-": ("minus", "+")}
STEPS = {"++": ("up", "--"), "--": ("down", "++")}
LOGIC = {"&&": "||", "||": "&&"}
INTEGER = re.compile(r"(0[xXbB])?[0-9a-fA-F']+[uUlLzZ]*$")
FLOATING = re.compile(r"[0-9.]+([eE][-+]?[0-9]+)?[fFlL]?$|0[xX][0-9a-fA-F.]+[pP][-+]?[0-9]+[fFlL]?$")
# Where a != b stands for !(a == b), clang has the second half of the text as an operator.
NOT = re.compile(r"!(?!=)")
# Without these another amount of memory is set aside, or the compiler knows less; nothing that can be seen.
UNSEEN = re.compile(r".*[.>](reserve|shrink_to_fit)\([^()]*(\([^()]*\))?[^()]*\)$|__builtin_unreachable\(\)$")


class Unavailable(Exception):
    """The file cannot be looked at here; the text says why."""


@dataclasses.dataclass
class Edit:
    """Replaces bytes [start, end) of the file, or puts text around them.

    `before` and `after` go around what is there; `instead`, if set, replaces it.
    """
    start: int
    end: int
    before: str = ""
    after: str = ""
    instead: str | None = None


@dataclasses.dataclass
class Mutant:
    line: int
    column: int
    was: str
    becomes: str
    edits: list  # of Edit; "@" in their texts stands for the number of the mutant
    constant: tuple | None = None  # of a constexpr variable, which must become const: offset of that word, its name
    number: int = 0

    def text(self):
        return f"{self.was} -> {self.becomes}"


def find(path, arguments):
    """The mutants of a file, by position. `arguments` are those of the compiler."""
    if cindex is None:
        raise Unavailable("python3-clang-19 is not installed: tools/setup mutants installs it")
    unit = cindex.Index.create().parse(
        str(path), args=arguments, options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
    errors = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if errors:
        raise Unavailable(f"clang cannot read {path}: {errors[0]}")
    finder = _Finder(path, unit)
    for child in unit.cursor.get_children():
        finder.visit(child, [])
    return finder.finish()


class _Finder:
    def __init__(self, path, unit):
        self._path = str(path)
        self._source = pathlib.Path(path).read_bytes()
        self._found = {}  # (start, end, kind) -> Mutant
        self._macros = [span(c) for c in unit.cursor.get_children()
                        if c.kind == Kind.MACRO_INSTANTIATION and self._inside(c)]

    def finish(self):
        mutants = sorted(self._found.values(), key=lambda m: (m.line, m.column, m.text()))
        seen = {}
        for number, mutant in enumerate(mutants, 1):
            mutant.number = number
            same = (mutant.line, mutant.text())
            seen[same] = seen.get(same, 0) + 1
            if seen[same] > 1:
                mutant.becomes += f" (number {seen[same]} in this line)"
        return mutants

    # ---- walking

    def visit(self, cursor, parents):
        if not self._inside(cursor) or self._of_macro(cursor) or cursor.kind == Kind.STATIC_ASSERT:
            return
        self._look(cursor, parents)
        children = list(cursor.get_children())
        if cursor.kind == Kind.CASE_STMT:
            children = children[1:]
        if cursor.kind == Kind.ENUM_DECL:
            return
        for child in children:
            self.visit(child, parents + [cursor])

    def _inside(self, cursor):
        file = cursor.extent.start.file
        return file is not None and file.name == self._path

    def _of_macro(self, cursor):
        start, end = span(cursor)
        return any(start >= first and end <= last for first, last in self._macros)

    def _look(self, cursor, parents):
        kind = cursor.kind
        if kind in (Kind.IF_STMT, Kind.WHILE_STMT):
            self._condition(cursor)
        elif kind == Kind.FOR_STMT:
            self._for_condition(cursor)
        elif kind == Kind.CONDITIONAL_OPERATOR:
            self._flip(next(cursor.get_children()))
        elif kind == Kind.RETURN_STMT:
            self._returned(cursor)
        elif kind in (Kind.BINARY_OPERATOR, Kind.CALL_EXPR):
            self._operator(cursor, parents)
        elif kind == Kind.UNARY_OPERATOR:
            self._unary(cursor, parents)
        elif kind in (Kind.INTEGER_LITERAL, Kind.FLOATING_LITERAL, Kind.CHARACTER_LITERAL):
            self._number(cursor, parents)
        elif kind == Kind.CXX_BOOL_LITERAL_EXPR:
            self._literal(cursor, parents, "flip", {"true": "false", "false": "true"}[self._text(cursor)])
        elif kind == Kind.STRING_LITERAL:
            self._string(cursor, parents)
        if is_statement(cursor, parents):
            self._removal(cursor)

    # ---- conditions

    def _condition(self, cursor):
        """The condition of if and while; also one that declares a variable."""
        children = list(cursor.get_children())
        head = self._source[span(cursor)[0]:span(children[0])[0]]
        if b"constexpr" in head:
            return
        if children[0].kind == Kind.VAR_DECL:
            return self._declared(children[0])
        while len(children) > 2 and b";" in self._source[span(children[0])[1]:span(children[1])[0]]:
            children.pop(0)
        if children[0].kind == Kind.DECL_STMT:
            children.pop(0)
        self._flip(children[0])

    def _declared(self, variable):
        """if (auto x = f()): the test gets a place of its own behind a semicolon."""
        start, end = span(variable)
        name = variable.spelling
        self._add(start, end, "flip", f"if ({name})", f"if (!{name})",
                  [Edit(start, end, "", f"; kp_mutant::flip(@, {name})")])

    def _for_condition(self, cursor):
        first, second = self._semicolons(cursor)
        for child in cursor.get_children():
            start, end = span(child)
            if first < start and end <= second:
                self._flip(child)

    def _semicolons(self, loop):
        """Where the two semicolons of a for statement are."""
        depth, found = 0, []
        for token in loop.get_tokens():
            depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(token.spelling, 0)
            if token.spelling == ";" and depth == 1:
                found.append(token.extent.start.offset)
            if len(found) == 2:
                break
        return found

    def _returned(self, cursor):
        for child in cursor.get_children():
            if child.type.get_canonical().kind == TypeKind.BOOL:
                self._flip(child)

    def _flip(self, cursor):
        """Negates an expression; literals have a mutant of their own."""
        cursor = bare(cursor)
        start, end = span(cursor)
        if cursor.kind == Kind.CXX_BOOL_LITERAL_EXPR or start == end:
            return
        text = self._text(cursor)
        becomes = text[1:].strip() if cursor.kind == Kind.UNARY_OPERATOR and NOT.match(text) else f"!({text})"
        self._add(start, end, "flip", text, becomes, [Edit(start, end, "kp_mutant::flip(@, ", ")")])

    # ---- operators

    def _operator(self, cursor, parents):
        operands, sign = self._operands(cursor)
        if sign in LOGIC:
            self._logic(cursor, operands, sign)
        elif sign in ("==", "!="):
            self._flip_unless_negated(cursor, parents)
        elif sign in ORDERS:
            self._flip_unless_negated(cursor, parents)
            self._swap(cursor, operands, sign, *ORDERS[sign])
        elif sign in SUMS and cursor.kind == Kind.BINARY_OPERATOR:
            self._swap(cursor, operands, sign, *SUMS[sign])

    def _operands(self, cursor):
        """The two operands of an operator and its sign; (None, "") for any other expression."""
        operands = list(cursor.get_children())
        if cursor.kind == Kind.CALL_EXPR:
            operands = list(cursor.get_arguments())
        if len(operands) != 2 or not all(o is not None and self._inside(o) for o in operands):
            return None, ""
        (start, first), (second, end) = span(operands[0]), span(operands[1])
        if first > second or (start, end) != span(cursor):
            return None, ""
        return operands, self._source[first:second].decode().strip()

    def _logic(self, cursor, operands, sign):
        for operand in operands:
            self._flip(operand)
        start, end = span(cursor)
        # a || b is !(!a && !b): the operands are still evaluated as late as before.
        edits = [Edit(*span(o), "kp_mutant::flip(@, ", ")") for o in [cursor, *operands]]
        texts = [f"({t})" if sign in t else t for t in map(self._text, operands)]
        self._add(start, end, sign, self._text(cursor), f"{texts[0]} {LOGIC[sign]} {texts[1]}", edits)

    def _flip_unless_negated(self, cursor, parents):
        outer = [p for p in parents[-3:] if p.kind == Kind.UNARY_OPERATOR and NOT.match(self._text(p))]
        if not any(bare(next(o.get_children())) == bare(cursor) for o in outer):
            self._flip(cursor)

    def _swap(self, cursor, operands, sign, helper, other):
        start, end = span(cursor)
        first, second = span(operands[0])[1], span(operands[1])[0]
        becomes = f"{self._text(operands[0])} {other} {self._text(operands[1])}"
        self._add(start, end, sign, self._text(cursor), becomes,
                  [Edit(start, end, f"kp_mutant::{helper}(@, ", ")"), Edit(first, second, instead=", ")])

    def _unary(self, cursor, parents):
        text = self._text(cursor)
        if NOT.match(text):
            return self._flip(cursor)
        front, back = text[:2] in STEPS, text[-2:] in STEPS
        if not (front or back) or (parents and parents[-1].kind == Kind.FOR_STMT):
            return  # a loop that counts in the wrong direction is no news
        sign = text[:2] if front else text[-2:]
        start, end = span(cursor)
        helper, other = STEPS[sign]
        becomes = other + text[2:] if front else text[:-2] + other
        gap = Edit(start, start + 2, instead="") if front else Edit(end - 2, end, instead="")
        call = f"kp_mutant::{helper}{'' if front else '_after'}(@, "
        self._add(start, end, sign, text, becomes, [Edit(start, end, call, ")"), gap])

    # ---- constants

    def _number(self, cursor, parents):
        text = self._text(cursor)
        if INTEGER.match(text) or FLOATING.match(text) or text.startswith("'"):
            self._literal(cursor, parents, "number", f"{text} + 1")

    def _string(self, cursor, parents):
        text = self._text(cursor)
        if text.startswith(('"', 'R"')) and text.endswith('"'):
            self._literal(cursor, parents, "text", text[:-1] + '~"')

    def _literal(self, cursor, parents, helper, becomes):
        start, end = span(cursor)
        declaration = next((p for p in reversed(parents) if p.kind.is_declaration()), None)
        if declaration is not None and self._of_type(cursor, declaration):
            return
        variable = initialized(parents)
        constant = self._constexpr(variable)
        if variable is not None:
            helper = "late_" + helper  # else it would be constant once more, and no switch is asked
        self._add(start, end, helper, self._text(cursor), becomes,
                  [Edit(start, end, f"kp_mutant::{helper}(@, ", ")")], constant)

    def _of_type(self, cursor, declaration):
        """Is it an argument of a template or the length of an array, in the type of what is declared?"""
        end = span(cursor)[1]
        if declaration.kind in (Kind.VAR_DECL, Kind.FIELD_DECL, Kind.PARM_DECL):
            if end <= declaration.location.offset and self._inside(declaration):
                return True
            return self._source[end:end + 1] == b"]" and declaration.type.kind == TypeKind.CONSTANTARRAY
        return False

    def _constexpr(self, variable):
        """Where the `constexpr` of a variable is, if it has one, and the variable's name."""
        if variable is None:
            return None
        start = span(variable)[0]
        match = re.search(rb"\bconstexpr\b", self._source[start:variable.location.offset])
        return (start + match.start(), variable.spelling) if match else None

    # ---- statements

    def _removal(self, cursor):
        start, end = span(cursor)
        text = self._text(cursor)
        if UNSEEN.match(text):
            return
        self._add(start, end, "keep", text, "(nothing)",
                  [Edit(start, end, "(kp_mutant::keep(@) ? static_cast<void>(", ") : void())")])

    # ---- common

    def _text(self, cursor):
        start, end = span(cursor)
        return " ".join(self._source[start:end].decode().split())

    def _add(self, start, end, kind, was, becomes, edits, constant=None):
        before = self._source[:start]
        line = before.count(b"\n") + 1
        column = start - (before.rfind(b"\n") + 1) + 1
        mutant = Mutant(line, column, shortened(was), shortened(becomes), edits, constant)
        self._found.setdefault((start, end, kind), mutant)


def shortened(text):
    return text if len(text) <= 120 else f"{text[:70]} ... {text[-45:]}"


def span(cursor):
    return cursor.extent.start.offset, cursor.extent.end.offset


def initialized(parents):
    """The variable in whose initializer this is."""
    for parent in reversed(parents):
        if parent.kind in (Kind.VAR_DECL, Kind.LAMBDA_EXPR):
            return parent if parent.kind == Kind.VAR_DECL else None
    return None


def bare(cursor):
    """The expression inside parentheses and implicit conversions."""
    while True:
        children = list(cursor.get_children())
        implicit = cursor.kind == Kind.UNEXPOSED_EXPR and len(children) == 1 and span(children[0]) == span(cursor)
        if not implicit and cursor.kind != Kind.PAREN_EXPR:
            return cursor
        cursor = children[0]


def is_statement(cursor, parents):
    """An expression that is a whole statement: a call or an assignment whose value nobody uses."""
    if not parents or cursor.kind not in (Kind.CALL_EXPR, Kind.BINARY_OPERATOR, Kind.UNARY_OPERATOR,
                                          Kind.COMPOUND_ASSIGNMENT_OPERATOR, Kind.UNEXPOSED_EXPR):
        return False
    parent = parents[-1]
    if parent.kind == Kind.COMPOUND_STMT:
        return True
    children = list(parent.get_children())
    if parent.kind in (Kind.FOR_STMT, Kind.WHILE_STMT, Kind.CXX_FOR_RANGE_STMT):
        return children[-1] == cursor
    if parent.kind == Kind.IF_STMT:
        return cursor in children[1:] and is_branch(parent, cursor)
    return parent.kind in (Kind.CASE_STMT, Kind.DEFAULT_STMT) and children[-1] == cursor


def is_branch(statement, cursor):
    """Does the cursor stand behind the parenthesis of the condition of an if statement?"""
    depth = 0
    for token in statement.get_tokens():
        depth += {"(": 1, ")": -1}.get(token.spelling, 0)
        if token.spelling == ")" and depth == 0:
            return span(cursor)[0] >= token.extent.end.offset
    return False
