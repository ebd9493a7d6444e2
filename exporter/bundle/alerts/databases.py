"""Whether the databases answer, and how busy their hosts are."""

from __future__ import annotations

from exporter.bundle.alerts.asking import PERCENT
from exporter.bundle.alerts.rules import Alert, Group, Record, Severity
from exporter.bundle.alerts.thresholds import Thresholds
from exporter.bundle.alerts.vectors import DROPPED, OF_TARGET, newest

CPU = "target:tde_host_cpu_utilization:ratio"
REFUSED = "target:tde_login_errors:increase2h"


def records(v: Thresholds) -> tuple[Group, ...]:
    """What the alerts of this module read."""
    errors = "tde_target_connection_errors_total"
    return (
        Group(
            "tde-databases-recording",
            (
                Record(
                    CPU,
                    f"""
                {newest("tde_host_cpu_utilization_ratio")}
                or
                group without ({DROPPED}) (tde_target_up)
                * on (target) group_left ()
                (1 - avg by (target) (rate(node_cpu_seconds_total{{job="{v.node_job}",mode="idle",target!=""}}[{v.span(300)}])))
                """,
                    "CPU use of the database's host: as the exporter sees it, or else from a node_exporter whose series have a "
                    "label target with the configured name of the target (give it in the scrape configuration).",
                ),
                Record(
                    REFUSED,
                    f"""
                sum without ({DROPPED}, reason) (increase({errors}{{reason=~"auth|tls"}}[{v.span(7200)}])) > 0
                unless on ({OF_TARGET})
                sum without ({DROPPED}, reason) (increase({errors}{{reason=~"connect|timeout|unavailable"}}[{v.span(1200)}])) > 0
                """,
                    "Refused logins of the last two hours (a secret that was refused is tried once an hour at most), where the database is "
                    "not out of reach for another reason.",
                ),
            ),
        ),
    )


def groups(v: Thresholds) -> tuple[Group, ...]:
    """The alerts about databases and hosts."""
    down = f"{newest('tde_target_up')} == 0"
    return (
        Group(
            "tde-databases",
            (
                Alert(
                    "TDETargetDown",
                    Severity.CRITICAL,
                    "availability",
                    f"{down}\nunless on ({OF_TARGET})\n{REFUSED}",
                    "{{ $labels.target }} cannot be reached",
                    "The exporter cannot use the {{ $labels.engine }} database {{ $labels.target }}, and its login was not refused: most "
                    "likely nobody else can use it either. Try to connect from the exporter's host; reasons are counted in "
                    "tde_target_connection_errors_total and said in the exporter's log.",
                    wait=v.target_down_for,
                    keep=120,
                ),
                Alert(
                    "TDETargetLoginRefused",
                    Severity.WARNING,
                    "availability",
                    f"{down}\nand on ({OF_TARGET})\n{REFUSED}",
                    "{{ $labels.target }} refuses the exporter's login",
                    "The database {{ $labels.target }} answers, but refuses the exporter's password or certificate, so nothing is "
                    "measured there; users are not concerned. Put the right secret in place: the exporter sees that it changed, and "
                    "tries a refused one once an hour at most.",
                    wait=v.target_down_for,
                    keep=120,
                ),
                Alert(
                    "TDEHostCPUSaturated",
                    Severity.WARNING,
                    "capacity",
                    f"avg_over_time({CPU}[{v.span(300)}]) > {v.host_cpu_ratio:.15g}",
                    f"The host of {{{{ $labels.target }}}} uses {PERCENT} of its CPU",
                    f"For a while the processors of the host of {{{{ $labels.target }}}} have been busy for more than {v.host_cpu_ratio:.0%} of "
                    f"the time ({PERCENT} now): queries wait, and encryption, which needs CPU, gets dearer. Look what uses it; "
                    "tde_encryption_cpu_cores_estimate says how much of it is encryption.",
                    wait=v.host_cpu_for,
                    keep=600,
                ),
            ),
        ),
    )
