"""The landing page says everything in words, invents nothing, and cannot be turned against its reader."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from exporter.overhead.cost import Interval
from exporter.overhead.ratio import Ratio
from exporter.overhead.words import Word
from exporter.web.pages.instances import InstanceRow
from exporter.web.pages.landing import KeystoreRow, Landing, Note, OverheadRow, PairRow, TargetRow, render
from exporter.web.pages.standbys import StandbyRow
from exporter.web.pages.words import VERDICTS

HOSTILE = '<script>alert(\'x\')</script>"><img src=x onerror="y">&amp;{{7*7}}\u202e\ud800</td></table>'
VOID = {"meta", "link", "br", "line", "rect", "circle", "path"}


class Document(HTMLParser):
    """Checks that all elements are closed in order; collects names, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.cells: list[str] = []
        self._open: list[str] = []
        self._text: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []
        self.text = " ".join("".join(self._text).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag in ("td", "th"):
            self.cells.append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            return
        self._text.append(data)
        if self.cells and ("td" in self._open or "th" in self._open):
            self.cells[-1] += data


def overhead(word: str = "within_budget", **changes: object) -> OverheadRow:
    values: dict[str, object] = {
        "target": "embedded",
        "pair": "phonebook",
        "operation": "full_scan_cold",
        "encrypted_seconds": 0.0423,
        "plain_seconds": 0.0304,
        "latency": Ratio(1.391, 1.352, 1.43, 359),
        "cpu": Ratio(1.413, 1.402, 1.426, 359),
        "decrypts_per_sample": 1412.0,
        "encrypts_per_sample": 0.0,
        "samples": 720,
        "source": "1 h window",
        "word": word,
    } | changes
    return OverheadRow(**values)  # type: ignore[arg-type]


def page(*rows: OverheadRow, **more: object) -> Document:
    return Document(render(Landing("1.2.3", 1000.0, 4600.0, overhead=rows, **more)))  # type: ignore[arg-type]


def test_a_number_never_comes_without_interval_and_count() -> None:
    text = page(overhead()).text.replace("\u00a0", " ").replace("\u202f", " ")
    assert "+39 % (+35 … +43) · n 359" in text
    assert "+41 % (+40 … +43) · n 359" in text
    assert "42.3 ms" in text
    assert "30.4 ms" in text
    assert "1 412" in text
    assert "1 h window" in text


def test_unknown_is_a_dash_and_never_a_zero() -> None:
    blank = overhead(
        "no_data",
        encrypted_seconds=None,
        plain_seconds=None,
        latency=None,
        cpu=None,
        decrypts_per_sample=None,
        source="",
    )
    cells = page(blank).cells[-9:]
    assert cells == ["full scan cold", "–no data", "–", "", "–", "–", "–", "–", "–"]


def test_sentences_and_more_figures_stand_beside_the_numbers() -> None:
    notes = (Note("breach", "P99 exceeds <the twin> since about 14:20 UTC"), Note("tail", "P99 straddles"))
    shown = page(overhead("over_budget", beneath=("P99 +60 %", "24 h +38 %"), notes=notes), overhead("held"))
    text = shown.text
    assert "P99 exceeds <the twin> since about 14:20 UTC" in text
    assert "P99 straddles" in text
    assert "24 h +38 %" in text
    assert "Operations: 1 over budget, 1 held. In breach: 1." in text
    assert ("class", "breach") in shown.attributes


@pytest.mark.parametrize("word", list(Word))
def test_every_verdict_is_said_and_explained_in_words(word: Word) -> None:
    shown = page(overhead(word.value))
    assert word in VERDICTS
    assert any(cell.endswith(VERDICTS[word].words) for cell in shown.cells)
    assert VERDICTS[word].meaning in shown.text
    assert f"Operations: 1 {VERDICTS[word].words}." in shown.text
    others = {other.meaning for name, other in VERDICTS.items() if name != word}
    assert not any(meaning in shown.text for meaning in others)


def test_a_word_of_tomorrow_is_shown_as_it_is() -> None:
    assert any(cell.endswith("quite new") for cell in page(overhead("quite_new")).cells)


def test_targets_say_what_is_known_of_them() -> None:
    targets = (
        TargetRow(
            "a",
            "sqlite",
            True,
            "SQLite 3.54",
            (KeystoreRow("key_file", "open"),),
            (PairRow("p", True), PairRow("q", False, "both plain")),
        ),
        TargetRow("b", "mysql", False, "connect: refused", (KeystoreRow("ring", "no_key"),), (PairRow("r", None),)),
        TargetRow("c", "mysql", None),
    )
    shown = page(targets=targets)
    assert "3 targets: 1 down, 1 unknown, 1 up." in shown.text
    assert shown.cells[-18:] == [
        *("a", "✓up", "sqlite", "key_file open", "p validq not valid: both plain", "SQLite 3.54"),
        *("b", "▲down", "mysql", "ring ▲no key", "r not verified yet", "connect: refused"),
        *("c", "–unknown", "mysql", "unknown", "–", "–"),
    ]


def test_every_keystore_says_its_state_and_whether_keys_are_missing() -> None:
    keystores = (
        KeystoreRow("one", "open", 1, 0),
        KeystoreRow("two", "open", 3, 1),
        KeystoreRow("three", "degraded", None, 2),
        KeystoreRow("four", "unknown"),
        KeystoreRow("five", "open", 1200),
    )
    cell = page(targets=(TargetRow("a", "mysql", True, keystores=keystores),)).cells[-3]
    assert cell == (
        "one open, 1 key in use"
        "two open ▲1 of 3 keys missing"
        "three ▲degraded ▲2 keys missing"
        "four –unknown"
        "five open, 1\u202f200 keys in use"
    )


def test_what_a_collector_could_not_read_stands_below_its_target_in_whole_words() -> None:
    notes = (
        ("encryption_state", "tablespaces are unknown: GRANT PROCESS"),
        ("activity", "reads are unknown; CPU is unknown"),
    )
    shown = page(targets=(TargetRow("a", "mysql", True, notes=notes), TargetRow("b", "mysql", True)))
    assert shown.cells[-7] == (
        "encryption state cannot read everything: tablespaces are unknown: GRANT PROCESS"
        "activity cannot read everything: reads are unknown; CPU is unknown"
    )
    assert shown.text.count("cannot read everything") == 2
    assert "2 targets: 2 up." in shown.text


def test_instances_show_their_rates_and_a_dash_for_what_is_unknown() -> None:
    instances = (
        InstanceRow(
            "a",
            "block",
            False,
            340.0,
            13.0,
            1.236,
            120.4,
            0.000258,
            0.9959,
            0.375,
            8,
            True,
            Interval(0.4217, 0.38, None),
        ),
        InstanceRow("b", "value", True, 0.01),
        InstanceRow("c", host_cpus=1, host_aes=False),
    )
    cells = [cell.replace("\u00a0", " ") for cell in page(instances=instances).cells[-27:]]
    assert cells == [
        *(
            "a",
            "340 / sblocks",
            "13 / sblocks",
            "about 0.420.38 … ?",
            "1.24",
            "38 %8 CPUs, AES",
            "120 / s",
            "258 µs",
            "99.5 %",
        ),
        *("b", "under 0.1 / svalues, derived", "–", "–", "–", "–", "–", "–", "–"),
        *("c", "–", "–", "–", "–", "–1 CPU, no AES", "–", "–", "–"),
    ]
    assert "Whole instances" not in page().text


def test_standbys_say_in_words_how_far_behind_they_are() -> None:
    standbys = (
        StandbyRow("a", "local", 0.002, None, True, True, True),
        StandbyRow("a", "dr", 2.14, None, True, True, True),
        StandbyRow("a", "third", None, None, False, False, None, "the applier is not running"),
        StandbyRow("b", "delayed", 1812.0, 1800.0, True, True, True),
        StandbyRow("b", "keyless", 4000.0, None, True, False, False, "the key does not open its file"),
        StandbyRow("b", "unread"),
    )
    cells = [cell.replace("\u00a0", " ") for cell in page(standbys=standbys).cells[-36:]]
    assert cells == [
        *("a", "local", "✓up to date", "yes", "yes", "the primary's"),
        *("a", "dr", "○2.1 s behind", "yes", "yes", "the primary's"),
        *("a", "third", "▲unknown the applier is not running", "no", "no", "unknown"),
        *("b", "delayed", "○30 min behind 30 min of it on purpose", "yes", "yes", "the primary's"),
        *(
            "b",
            "keyless",
            "○1 h 6 min behind the key does not open its file",
            "yes",
            "no",
            "▲lacks one of the primary's",
        ),
        *("b", "unread", "–unknown", "–", "–", "unknown"),
    ]


@pytest.mark.parametrize(
    ("lag", "words"), [(0.0, "up to date"), (0.49, "up to date"), (0.5, "0.5 s behind"), (59.94, "59.9 s behind")]
)
def test_a_lag_that_is_nothing_is_said_to_be_none(lag: float, words: str) -> None:
    assert words in page(standbys=(StandbyRow("a", "s", lag),)).text.replace("\u00a0", " ")


def test_without_standbys_there_is_no_table_of_them() -> None:
    assert "Standbys" not in page().text


def test_nothing_configured_and_nothing_measured_still_make_a_page() -> None:
    shown = page()
    assert "No targets." in shown.text
    assert "Nothing measured yet." in shown.text
    assert "running for 1\u00a0h 0\u00a0min" in "".join(shown._text)


def test_the_noise_of_the_exporter_is_one_line_and_absent_when_unknown() -> None:
    words = (
        "The exporter's own noise: 1.20 µs median, 24.0 µs P99 in the last hour; 0 of 312 ticks dropped as contended."
    )
    assert words in page(overhead(), noise=words).text
    assert "noise" not in page(overhead()).text


def test_what_a_decrypt_costs_stands_at_its_pair_and_the_rate_at_its_operation() -> None:
    words = "a page decrypted costs 2.06 µs (1.51 … 2.60) of CPU"
    shown = page(overhead(rate="P50 only: one sample per tick"), costs={("embedded", "phonebook"): words})
    assert f"embeddedphonebook{words}" in shown.cells
    assert "full scan coldP50 only: one sample per tick" in shown.cells
    assert "embeddedphonebook" in page(overhead(), costs={("embedded", "other"): words}).cells


def test_links_lead_to_the_machine_readable_side() -> None:
    links = [value for name, value in page().attributes if name == "href"]
    assert links == ["/favicon.ico", "/metrics", "/-/healthy", "/-/ready"]


def test_the_page_is_complete_in_itself_and_renews_itself() -> None:
    text = render(Landing("1.2.3", 0.0, 0.0, overhead=(overhead(),)))
    assert '<meta http-equiv="refresh" content="10">' in text
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"https?://|url\(|@import|<script|\son[a-z]+=|\sstyle=", text)


def test_hostile_names_stay_text() -> None:
    everything = Landing(
        HOSTILE,
        0.0,
        0.0,
        targets=(
            TargetRow(
                HOSTILE,
                HOSTILE,
                True,
                HOSTILE,
                (KeystoreRow(HOSTILE, HOSTILE),),
                (PairRow(HOSTILE, False, HOSTILE),),
                ((HOSTILE, HOSTILE),),
            ),
        ),
        instances=(InstanceRow(HOSTILE, HOSTILE, decrypts=1.0),),
        overhead=(overhead(HOSTILE, target=HOSTILE, pair=HOSTILE, operation=HOSTILE, source=HOSTILE),),
        standbys=(StandbyRow(HOSTILE, HOSTILE, 9.0, 1.0, None, None, False, HOSTILE),),
        problems=(HOSTILE,),
    )
    tame = Landing(
        "x",
        0.0,
        0.0,
        targets=(TargetRow("x", "x", True, "x", (KeystoreRow("x", "x"),), (PairRow("x", False, "x"),), (("x", "x"),)),),
        instances=(InstanceRow("x", "x", decrypts=1.0),),
        overhead=(overhead("x", target="x", pair="x", operation="x", source="x"),),
        standbys=(StandbyRow("x", "x", 9.0, 1.0, None, None, False, "x"),),
        problems=("x",),
    )
    found, expected = Document(render(everything)), Document(render(tame))
    assert found.names == expected.names
    assert found.attributes == expected.attributes
    assert "".join(found._text).count("<script>") == 22
