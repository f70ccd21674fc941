"""From the text of a query to its tree: a tokenizer and a recursive-descent parser.

Grammar, loosest first (words in any case; ``& | ~`` are the same as ``and or not``)::

    any       := all ("or" all)*
    all       := negated ("and" negated)*
    negated   := "not" negated | condition
    condition := "(" any ")" | operand (comparison operand)+ | column ["not"] "in" list
               | column "is" ["not"] "null" | column
    operand   := column | number | text | "true" | "false"
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from crosslevel.errors import InputError

MAX_CONDITIONS = 1000  # Arrow walks a joined filter recursively, and ends the process some thousands deep
SHOWN = 240  # characters of a line that an error shows
MAX_DIGITS = 1000  # of a written number; no column holds longer ones
MAX_DEPTH = 100  # parentheses and nots within one another: far beyond use, far below Python's recursion limit


@dataclass(frozen=True)
class Literal:
    """A value as meant and as written."""

    value: bool | int | float | str
    written: str


@dataclass(frozen=True)
class Comparison:
    """``left operator right``; a ``str`` is a column, and at least one side is."""

    operator: str
    left: str | Literal
    right: str | Literal


@dataclass(frozen=True)
class Membership:
    """``column in (values)``, or ``not in``."""

    column: str
    values: tuple[Literal, ...]
    negated: bool = False


@dataclass(frozen=True)
class Missing:
    """``column is null``, or ``is not null``."""

    column: str
    negated: bool = False


@dataclass(frozen=True)
class Truth:
    """A column of truth values standing alone, or its negation."""

    column: str
    negated: bool = False


@dataclass(frozen=True)
class And:
    """All of the parts."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Or:
    """Any of the parts."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Membership | Missing | Truth | And | Or

OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
KEYWORDS = {"and", "or", "not", "in", "is", "null", "true", "false"}
SAME_AS = {"&": "and", "|": "or", "~": "not"}
HINTS = {
    "=": "'=' is not a comparison; write '=='",
    "<>": "'<>' is not a comparison; write '!='",
    "&&": "'&&' is not a word of the language; write 'and'",
    "||": "'||' is not a word of the language; write 'or'",
    "!": "'!' is not a word of the language; write 'not', or '!=' for a comparison",
}
TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?>(?:\d+(?:_\d+)*(?:\.(?:\d+(?:_\d+)*)?)?|\.\d+(?:_\d+)*)(?:[eE][+-]?\d+)?)(?![\w.]))
    | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<quoted>`[^`]+`)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign><>|&&|\|\||==|!=|<=|>=|[<>=!&|~()\[\],+-])
    )""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """A piece of the text: its kind (``number text column keyword sign end``), its text and where it begins."""

    kind: str
    text: str
    start: int


def parse_text(text: str) -> Condition:
    """Read the text of a query into its tree, with negations moved down to the leaves.

    Examples
    --------
    >>> parse_text("not (age > 3)")
    Comparison(operator='<=', left='age', right=Literal(value=3, written='3'))
    """
    parser = _Parser(text)
    condition = parser.any_of(negated=False)
    if parser.token.kind != "end":
        what = (
            "a closing parenthesis too many"
            if parser.token.text == ")"
            else f"{parser.token.text!r} was not expected here"
        )
        parser.fail(f"{what}; join conditions with 'and' or 'or'")
    return condition


def _fail(text: str, position: int, problem: str) -> NoReturn:
    start = text.rfind("\n", 0, position) + 1
    line = text[start:].split("\n", 1)[0]
    # of a long line, what stands around the place
    first = max(0, position - start - SHOWN // 2)
    shown = line[first : first + SHOWN]
    caret = "".join("\t" if c == "\t" else " " for c in line[first : position - start]) + "^"
    raise InputError(f"the query cannot be read: {problem}.\n    {shown}\n    {caret}")


def _tokens(text: str) -> list[Token]:
    tokens, position = [], 0
    end = len(text.rstrip())
    while position < end:
        found = TOKEN.match(text, position)
        if found is None or found.lastgroup is None:
            _fail(text, *_unreadable(text, position + len(text[position:]) - len(text[position:].lstrip())))
        kind, word, start = found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)
        if kind == "sign" and word in HINTS:
            _fail(text, start, HINTS[word])
        if kind == "sign" and word in SAME_AS:
            kind, word = "keyword", SAME_AS[word]
        elif kind == "word":
            kind, word = ("keyword", word.lower()) if word.lower() in KEYWORDS else ("column", word)
        elif kind == "quoted":
            kind, word = "column", word[1:-1]
        tokens.append(Token(kind, word, start))
        position = found.end()
    tokens.append(Token("end", "", end))
    return tokens


def _unreadable(text: str, position: int) -> tuple[int, str]:
    """Say what is wrong at a place where no token begins."""
    character = text[position]
    if character in "'\"`":
        return position, f"the quote {character} is not closed"
    if character == ".":
        return (
            position,
            "'.' was not expected here; put column names that hold a point or a blank in backticks, `like this`",
        )
    if character.isdigit():
        word = re.match(r"[\w.]+", text[position:])
        shown = (word[0] if word else character)[:SHOWN]
        return (
            position,
            f"{shown!r} is neither a number nor a column; quote text, and put such column names in backticks",
        )
    return position, f"{character!r} is not part of the language"


class _Parser:
    """Walks the tokens once; ``negated`` carries an enclosing ``not`` downwards."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0
        self.depth = self.conditions = 0
        if self.tokens[0].kind == "end":
            self.fail("it is empty; write for example 'age >= 65'")

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def fail(self, problem: str, token: Token | None = None) -> NoReturn:
        _fail(self.text, (token or self.token).start, problem)

    def accept(self, kind: str, *texts: str) -> Token | None:
        token = self.token
        if token.kind == kind and (not texts or token.text in texts):
            self.at += 1
            return token
        return None

    def any_of(self, negated: bool) -> Condition:
        return self._joined("or", self.all_of, And if negated else Or, negated)

    def all_of(self, negated: bool) -> Condition:
        return self._joined("and", self.maybe_negated, Or if negated else And, negated)

    def _joined(
        self, word: str, read: Callable[[bool], Condition], kind: type[And] | type[Or], negated: bool
    ) -> Condition:
        parts = [read(negated)]
        while self.accept("keyword", word):
            parts.append(read(negated))
        return parts[0] if len(parts) == 1 else kind(tuple(parts))

    def maybe_negated(self, negated: bool) -> Condition:
        while self.accept("keyword", "not"):
            negated = not negated
        return self.condition(negated)

    def condition(self, negated: bool) -> Condition:
        if opening := self.accept("sign", "("):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                self.fail(f"parentheses are nested more than {MAX_DEPTH} deep", opening)
            inside = self.any_of(negated)
            if not self.accept("sign", ")"):
                self.fail("this parenthesis is not closed", opening)
            self.depth -= 1
            return inside
        first = self.token
        self.conditions += 1
        if self.conditions > MAX_CONDITIONS:
            self.fail(f"it has more than {MAX_CONDITIONS:,} conditions; write lists of values as column in (1, 2, 3)")
        left = self.operand()
        if self.token.kind == "sign" and self.token.text in OPPOSITE:
            return self.chain(left, first, negated)
        if not isinstance(left, str):
            self.fail(f"{left.written} stands alone; compare it with a column", first)
        if self.accept("keyword", "is"):
            negated ^= self.accept("keyword", "not") is not None
            if not self.accept("keyword", "null"):
                self.fail("only 'null' or 'not null' can follow 'is'; write '==' for other values")
            return Missing(left, negated)
        if self.token.kind == "keyword" and self.token.text == "not":
            self.at += 1
            negated = not negated
            if self.token.text != "in":
                self.fail("'in' is expected after 'not' here")
        if self.accept("keyword", "in"):
            return Membership(left, self.values(), negated)
        return Truth(left, negated)

    def chain(self, left: str | Literal, first: Token, negated: bool) -> Condition:
        """Read ``18 <= age < 65``: each neighboring pair is compared."""
        links: list[Condition] = []
        while self.token.kind == "sign" and self.token.text in OPPOSITE:
            operator = self.token.text
            self.at += 1
            right = self.operand()
            if isinstance(left, Literal) and isinstance(right, Literal):
                self.fail(f"{left.written} {operator} {right.written} compares two values; name a column", first)
            links.append(Comparison(OPPOSITE[operator] if negated else operator, left, right))
            left = right
        if len(links) == 1:
            return links[0]
        return Or(tuple(links)) if negated else And(tuple(links))

    def values(self) -> tuple[Literal, ...]:
        """Read the list after ``in``."""
        opening = self.token
        if not self.accept("sign", "(", "["):
            self.fail("a list in parentheses is expected after 'in', for example in (1, 2, 3)")
        closing = ")" if opening.text == "(" else "]"
        values: list[Literal] = []
        while not self.accept("sign", closing):
            if self.token.kind == "end":
                self.fail("this list is not closed", opening)
            token = self.token
            value = self.operand()
            if isinstance(value, str):
                self.fail(f"{value!r} is not a value; put text in quotes", token)
            values.append(value)
            if not self.accept("sign", ",") and self.token.kind != "end" and self.token.text != closing:
                self.fail(f"',' or '{closing}' is expected here")
        if not values:
            self.fail("the list after 'in' is empty", opening)
        return tuple(values)

    def operand(self) -> str | Literal:
        if token := self.accept("column"):
            return token.text
        if token := self.accept("text"):
            return Literal(re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL), token.text)
        if token := self.accept("keyword", "true", "false"):
            return Literal(token.text == "true", token.text)
        sign = self.accept("sign", "-", "+")
        if token := self.accept("number"):
            return self.number(token, sign.text if sign else "")
        if self.token.text == "null" and self.token.kind == "keyword":
            self.fail("null equals nothing; write 'is null' or 'is not null'")
        if self.token.kind == "end":
            self.fail("something is missing at the end: a column or a value")
        self.fail(f"{self.token.text!r} stands where a column or a value is expected")

    def number(self, token: Token, sign: str) -> Literal:
        if re.match(r"0\d", token.text):
            self.fail(f"{token.text} begins with a zero; if it is a code, put it in quotes: '{token.text}'", token)
        written = sign.replace("+", "") + token.text
        plain = written.replace("_", "")
        if len(plain) > MAX_DIGITS:
            self.fail(f"a number of {len(plain):,} characters cannot be compared; the longest has {MAX_DIGITS}", token)
        return Literal(int(plain) if re.fullmatch(r"-?\d+", plain) else float(plain), written)
