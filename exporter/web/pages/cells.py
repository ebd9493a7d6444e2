"""Pieces of tables that every page uses. What comes from outside must be escaped by whoever hands in `content`."""

from __future__ import annotations

from html import escape

from exporter.overhead.formats import UNKNOWN
from exporter.web.pages.words import MARKS


def chip(words: str, tone: str) -> str:
    """Words with colour and mark, which only repeat what the words say."""
    return f'<span class="chip {tone}"><i aria-hidden="true">{MARKS[tone]}</i>{escape(words)}</span>'


def cell(label: str, content: str, classes: str = "") -> str:
    """One cell; on a narrow screen its label stands before it."""
    if content == UNKNOWN:
        classes = f"{classes} dash".lstrip()
    return f'<td data-label="{label}"{f" class={chr(34)}{classes}{chr(34)}" if classes else ""}>{content}</td>'
