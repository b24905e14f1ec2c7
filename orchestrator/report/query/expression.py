"""The query language: `hardware ~ 'H200' and val_accuracy > 0.97`.

    either     = both {"or" both}
    both       = negated {"and" negated}
    negated    = "not" negated | "(" either ")" | condition
    condition  = column ("=" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~") value
               | column ["not"] "in" "(" value {"," value} ")"
               | column "is" ["not"] "missing"
    value      = number | 'text' | "text" | true | false

A quote inside a text is doubled (`'it''s'`). Column names that are not plain words need
backquotes. `==` means `=`. Words may be written in capitals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from orchestrator.core.errors import Refusal

Value: TypeAlias = bool | int | float | str
Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">=", "~", "!~"]

_WORDS = ("and", "or", "not", "in", "is", "missing", "true", "false")
_DEEPEST = 100
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<quoted>`[^`]+`)
    | (?P<word>[^\W\d](?:[\w.]|[-/](?=\w))*)
    | (?P<mark><=|>=|!=|!~|==|[=<>~(),])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Literally:
    """A value in the text, with its position."""

    value: Value
    place: int


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column in the text, with its position."""

    name: str
    place: int


@dataclass(frozen=True, slots=True)
class ColumnTest:
    """A comparison of a column with a value."""

    column: ColumnName
    operator: Operator
    value: Literally


@dataclass(frozen=True, slots=True)
class OneOf:
    """A column that has one of these values."""

    column: ColumnName
    values: tuple[Literally, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """A column without a value."""

    column: ColumnName


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of an expression."""

    of: Expression


@dataclass(frozen=True, slots=True)
class Both:
    """All of these hold."""

    of: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of these holds."""

    of: tuple[Expression, ...]


Expression: TypeAlias = ColumnTest | OneOf | Missing | Not | Both | Either


class QueryError(Refusal, ValueError):
    """An error in a query; the message shows the text with a caret below the position."""

    def __init__(self, problem: str, text: str, place: int) -> None:
        line = "".join(char if char.isprintable() else " " for char in text)
        start = max(0, place - 60)
        cut = ("…" if start else "") + line[start : place + 40]
        caret = " " * (place - start + bool(start)) + "^"
        super().__init__(f"{problem}\n  {cut}\n  {caret}")
        self.place = place


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int

    @property
    def shown(self) -> str:
        return "the end" if self.kind == "end" else f"`{self.text}`"


def parse(text: str) -> Expression:
    """Parse an expression.

    Raises:
        QueryError: The text is no expression; the message points at the position.
    """
    return _Parser(text).parse()


def columns_of(expression: Expression) -> Iterator[str]:
    """Yield the names of the columns in an expression."""
    match expression:
        case Both(of=parts) | Either(of=parts):
            for part in parts:
                yield from columns_of(part)
        case Not(of=part):
            yield from columns_of(part)
        case _:
            yield expression.column.name


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0
        self._depth = 0

    def parse(self) -> Expression:
        expression = self._either()
        if self._peek().kind != "end":
            self._refuse("and, or, or the end")
        return expression

    def _either(self) -> Expression:
        return self._joined("or", self._both, Either)

    def _both(self) -> Expression:
        return self._joined("and", self._negated, Both)

    def _joined(
        self,
        word: str,
        part: Callable[[], Expression],
        kind: Callable[[tuple[Expression, ...]], Expression],
    ) -> Expression:
        parts = [part()]
        while self._took(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else kind(tuple(parts))

    def _negated(self) -> Expression:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"expected at most {_DEEPEST} levels of parentheses and not")
        if self._took("not"):
            expression: Expression = Not(self._negated())
        elif self._took("("):
            expression = self._either()
            self._expect(")", "and, or, or a closing parenthesis")
        else:
            expression = self._condition()
        self._depth -= 1
        return expression

    def _condition(self) -> Expression:
        column = self._column()
        negated = self._took("not")
        if self._took("in"):
            return _negated_if(negated, OneOf(column, self._values()))
        if negated:
            self._refuse("in (…)")
        if self._took("is"):
            negated = self._took("not")
            self._expect("missing", "missing, or not missing")
            return _negated_if(negated, Missing(column))
        token = self._peek()
        if token.kind != "mark" or token.text in "(),":
            self._refuse("=, !=, <, <=, >, >=, ~, !~, in (…) or is missing")
        self._next += 1
        operator: Operator = "=" if token.text == "==" else token.text  # type: ignore[assignment]
        return ColumnTest(column, operator, self._value())

    def _values(self) -> tuple[Literally, ...]:
        self._expect("(", "a list in parentheses: ('one', 'other')")
        values = [self._value()]
        while self._took(","):
            values.append(self._value())
        self._expect(")", "a comma, or a closing parenthesis")
        return tuple(values)

    def _column(self) -> ColumnName:
        token = self._peek()
        plain = token.kind == "word" and token.text.lower() not in _WORDS
        if not plain and token.kind != "quoted":
            self._refuse("a column, such as val_accuracy")
        self._next += 1
        return ColumnName(token.text.strip("`"), token.place)

    def _value(self) -> Literally:
        token = self._peek()
        value: Value
        if token.kind == "number":
            is_whole = token.text.lstrip("+-").isdigit() and len(token.text) < 300
            value = int(token.text) if is_whole else float(token.text)
        elif token.kind == "text":
            quote = token.text[0]
            value = token.text[1:-1].replace(quote * 2, quote)
        elif token.kind == "word" and token.text.lower() in ("true", "false"):
            value = token.text.lower() == "true"
        elif token.kind == "word":
            raise self._error(
                f"expected a number, a text in quotes, true or false; received {token.text} "
                f"without quotes: write '{token.text}'"
            )
        else:
            self._refuse("a number, a text in quotes, true or false")
        self._next += 1
        return Literally(value, token.place)

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _took(self, wanted: str) -> bool:
        token = self._peek()
        if token.kind not in ("word", "mark") or token.text.lower() != wanted:
            return False
        self._next += 1
        return True

    def _expect(self, wanted: str, expected: str) -> None:
        if not self._took(wanted):
            self._refuse(expected)

    def _refuse(self, expected: str) -> NoReturn:
        raise self._error(f"expected {expected}; received {self._peek().shown}")

    def _error(self, problem: str) -> QueryError:
        return QueryError(problem, self._text, self._peek().place)


def _negated_if(negated: bool, expression: Expression) -> Expression:
    return Not(expression) if negated else expression


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise QueryError(_unreadable(text[place:]), text, place)
        kind = str(match.lastgroup)
        if kind != "space":
            yield _Token(kind, match[0], place)
        place = match.end()
    yield _Token("end", "", len(text))


def _unreadable(rest: str) -> str:
    if rest[0] in "'\"`":
        return f"expected a closing {rest[0]}; received the end"
    hint = {"&": ": write and", "|": ": write or", "!": ": write not"}.get(rest[0], "")
    shown = rest.split(maxsplit=1)[0][:20]
    return f"expected a column, a value, a comparison or a parenthesis; received {shown!r}{hint}"
