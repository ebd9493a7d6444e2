"""Target detail: one database. Four questions with one obvious panel each, then what it costs, and why."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Board, Place, Row, asked, chosen
from exporter.bundle.dashboards.limits import LAG_SECONDS
from exporter.bundle.dashboards.palette import BAD, BLUE, DOUBT, GOOD, SILENT, VERDICTS, Word, steps
from exporter.bundle.dashboards.panels import Query, Style, stat
from exporter.bundle.dashboards.queries import (
    JOB,
    OPERATION,
    PAIR,
    STANDBYS,
    TARGET,
    event_marks,
    lag,
    standbys,
    verdict,
)
from exporter.bundle.dashboards.target_canaries import CANARIES
from exporter.bundle.dashboards.target_cost import COST
from exporter.bundle.dashboards.target_keys import KEYS
from exporter.bundle.dashboards.target_standbys import FACTS, STANDBY
from exporter.bundle.dashboards.target_why import CIPHER, STORAGE

_SELECTED = f'{OPERATION},percentile="$percentile",window="$window"'

PROOFS = (
    Word("", 4, "YES, VERIFIED", GOOD),
    Word("", 3, "YES, PROVEN", GOOD),
    Word("", 2, "NOT PROVEN", DOUBT),
    Word("", 1, "NOT YET", SILENT),
    Word("", 0, "PAIR INVALID", BAD),
)


def _proof() -> str:
    return " or ".join(
        (
            f"(min(tde_pair_valid{{{PAIR}}}) == 0)",
            f'max(tde_pair_info{{{PAIR},phase="aa"}})',
            f"(min(tde_canary_blind{{{PAIR}}}) == 1) + 1",
            f"(min(tde_canary_blind{{{PAIR}}}) == 0) + 3",
            f"max(tde_pair_valid{{{PAIR}}}) + 3",
        )
    )


ANSWERS = Row(
    1,
    "Answers",
    (
        Place(
            10,
            4,
            5,
            stat(
                "Verdict",
                "The exporter's own word about what encryption costs the selected operation, against a budget of 20 %.",
                "WITHIN BUDGET: even the upper bound is below 20 %. OVER BUDGET: sequential evidence says so, and holds until"
                " the upper bound is below. UNDECIDED: the samples cannot tell yet. BLIND: nothing passed the cipher, the"
                " number says nothing about encryption. CERTIFYING: both twins are plain. WARMING: too few samples. HELD:"
                " judging waits after an outage. NO DATA: nothing was measured.",
                [Query(verdict(OPERATION), "verdict")],
                "none",
                words=VERDICTS,
                none="NO VERDICT YET",
            ),
        ),
        Place(
            11,
            5,
            5,
            stat(
                "Is it encrypted?",
                "Question 1: is it encrypted? What verification found about the selected pair, and whether a canary query"
                " of the last hour really passed the cipher.",
                "YES, PROVEN: blocks of the encrypted twin were decrypted. YES, VERIFIED: so says the engine, which does not"
                " count decrypts. NOT PROVEN: encrypted, but every block came from memory in the clear. NOT YET: both twins"
                " are plain. PAIR INVALID: the twins are not what they should be. For the whole database see Encryption.",
                [Query(_proof(), "pair")],
                "none",
                words=PROOFS,
                none="NOT VERIFIED",
            ),
        ),
        Place(
            12,
            5,
            5,
            stat(
                "What does it cost at P$percentile?",
                "Question 2: what does it cost at P99? How much longer the same query takes on the encrypted twin than on"
                " the plain one, at the selected percentile and in the selected window.",
                "+10 % means that a query that takes 10 ms in the clear takes 11 ms. It is no fact without the bounds beside"
                " it. P99 is selected where it is known; operations that are measured once in a tick have P50 only.",
                [Query(f"max(tde_overhead_ratio{{{_SELECTED}}}) - 1", "overhead")],
                "percentunit",
                decimals=1,
                none="not known",
                thresholds=steps(BLUE),
            ),
        ),
        Place(
            13,
            5,
            5,
            stat(
                "How sure is that?",
                "Question 3: how sure is that? The bounds of the two-sided 95 % interval of the overhead, and how many"
                " samples of each twin it rests on.",
                "The true overhead lies between the two, in 95 of 100 such windows. Bounds on both sides of 20 % mean that"
                " nothing is decided. More samples, narrower bounds.",
                [
                    Query(f"max(tde_overhead_ratio_lower{{{_SELECTED}}}) - 1", "at least"),
                    Query(f"max(tde_overhead_ratio_upper{{{_SELECTED}}}) - 1", "at most"),
                    Query(f'min(tde_overhead_samples{{{OPERATION},window="$window"}})', "samples"),
                ],
                "percentunit",
                decimals=1,
                none="not sure",
                text="value_and_name",
                thresholds=steps(BLUE),
                styles=[Style("samples", properties={"unit": "none", "decimals": 0})],
            ),
        ),
        Place(
            14,
            5,
            5,
            stat(
                "Is the standby keeping up?",
                "Question 4: is the standby keeping up? The worst of all standbys of this database, and its lag, without a"
                " delay that is set on purpose.",
                "KEEPING UP: all lags are known and below one minute. BEHIND: one is above. LAG UNKNOWN: one cannot be asked."
                " STOPPED: one does not receive or apply. KEY MISSING: one lacks a key that the primary's objects use.",
                [Query(standbys(TARGET), "state"), Query(f"max({lag(TARGET)})", "lag")],
                "none",
                words=STANDBYS,
                worded="state",
                none="no standby",
                text="value",
                styles=[
                    Style(
                        "lag",
                        properties={
                            "unit": "s",
                            "decimals": 1,
                            "thresholds": steps(GOOD, (LAG_SECONDS, DOUBT)),
                        },
                    ),
                ],
            ),
        ),
    ),
)


def target() -> Board:
    """One database in depth."""
    tier = f"max by (operation) (tde_canary_tier{{{PAIR}}})"
    # The worst verdict first; of equal ones that which P99 can be told of.
    operations = f"(({verdict(PAIR, 'operation')}) - on (operation) group_left () {tier} / 10) or {tier} * 0"
    pairs = f"({verdict(TARGET, 'pair')}) or max by (pair) (tde_canary_tier{{{TARGET}}}) * 0"
    # 99 first where it is known, else 50: rare operations have no other.
    tail = f'count(tde_overhead_ratio{{{OPERATION},percentile="99"}}) * 0 + 3 or vector(1)'
    percentiles = (
        f'label_replace({tail}, "percentile", "99", "", "") or label_replace(vector(2), "percentile", "50", "", "")'
    )
    return Board(
        "tde-target",
        "TDE / Target detail",
        "One database: is it encrypted, what does that cost, how sure is that, and is the standby keeping up?",
        [
            JOB,
            asked("target", "Target", 'label_values(tde_target_up{job=~"$job"}, target)'),
            asked("pair", "Pair", f"query_result(sort_desc({pairs}))", regex='/pair="([^"]+)"/', ordered=False),
            asked(
                "operation",
                "Operation",
                f"query_result(sort_desc({operations}))",
                regex='/operation="([^"]+)"/',
                ordered=False,
            ),
            asked(
                "percentile",
                "Percentile",
                f"query_result(sort_desc({percentiles}))",
                regex='/percentile="([^"]+)"/',
                ordered=False,
            ),
            chosen("window", "Window", ["1h", "24h"]),
        ],
        rows=[ANSWERS, COST, CIPHER, STORAGE, KEYS, STANDBY, CANARIES, FACTS],
        annotations=event_marks(TARGET),
    )
