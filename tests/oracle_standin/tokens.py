"""SQL as a list of tokens, which makes texts comparable whatever their white space, comments and letter case."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
    (?P<space>\s+ | --[^\n]* | /\*(?!\+).*?\*/)
    | (?P<hint>/\*\+.*?\*/)
    | (?P<quoted>"[^"]+")
    | (?P<string>'(?:[^']|'')*')
    | (?P<bind>:\s*\w+)
    | (?P<hole>\{\w+\})
    | (?P<word>[A-Za-z_][\w$#]*)
    | (?P<number>\d+(?:\.\d+)?)
    | (?P<mark><>|!=|<=|>=|:=|=>|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r'"[A-Z][A-Z0-9_$#]*"')

NAME = r'(?:[A-Z_][\w$#]*|"[^"]+")'
"""A name among canonical tokens."""


def tokens(sql: str) -> list[str]:
    """Without comments, but with hints; words in upper case, and unquoted where that makes no difference."""
    found = []
    for match in _TOKEN.finditer(sql):
        text = match.group()
        if match.lastgroup == "space":
            continue
        if match.lastgroup in ("word", "bind"):
            text = "".join(text.upper().split())
        elif match.lastgroup == "quoted" and _PLAIN.fullmatch(text):
            text = text[1:-1]
        elif match.lastgroup == "hint":
            text = "/*+ " + " ".join(text[3:-2].upper().split()) + " */"
        found.append(text)
    return found


def canonical(sql: str) -> str:
    """The tokens with a space between them."""
    return " ".join(tokens(sql))


def position_of(name: str, sql: str) -> int:
    """Where a name stands in a statement, as errors report it; 0 when it does not."""
    match = re.search(rf"(?<![\w$#]){re.escape(name)}(?![\w$#])", sql, re.IGNORECASE)
    return match.start() if match else 0
