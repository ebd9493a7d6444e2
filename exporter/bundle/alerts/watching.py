"""Whether anybody is watching: the exporter, its parts, and the way that alerts take."""

from __future__ import annotations

from exporter.bundle.alerts.rules import RESTART, Alert, Board, Group, Severity
from exporter.bundle.alerts.thresholds import Thresholds
from exporter.bundle.alerts.vectors import DROPPED, OF_TARGET, newest

_INSTANCE = ("job", "instance")


def groups(v: Thresholds) -> tuple[Group, ...]:
    """The alerts about the exporter itself."""
    return (
        Group("tde-exporter", (*_down(v), *_parts(v), *_several(), *_troubles(v), *_certificate(v))),
        Group("tde-exporter-slow", _lost(v), interval=300),
    )


def _down(v: Thresholds) -> tuple[Alert, ...]:
    up = f'up{{job="{v.job}"}}'
    return (
        Alert(
            "TDEExporterDown",
            Severity.CRITICAL,
            "exporter",
            f"{up} == 0",
            "The TDE exporter {{ $labels.instance }} does not answer",
            "Prometheus cannot scrape {{ $labels.instance }}, so nothing is known about the databases that it watches: a lost "
            "key or a stopped standby would go unseen until it is back. Look whether the process runs, and at the end of its "
            "log; it starts anew without harm to any database.",
            wait=v.exporter_down_for,
            keep=120,
            board=Board.EXPORTER,
            shows=_INSTANCE,
        ),
        Alert(
            "TDEExporterAbsent",
            Severity.WARNING,
            "exporter",
            f"absent({up})",
            "Prometheus knows no TDE exporter",
            'Prometheus has no target with job="{{ $labels.job }}", so none of the other TDE alerts can come, whatever happens. '
            "Look at scrape_configs and service discovery of Prometheus; if the job has another name, render the rules with "
            "--set job=NAME.",
            wait=2 * v.exporter_down_for,
            board=Board.EXPORTER,
            shows=("job",),
        ),
        Alert(
            "TDEWatchdog",
            Severity.NONE,
            "meta",
            "vector(1)",
            "The way that alerts take works",
            "This alert always fires, so that its silence can be noticed: send it to something that raises the alarm when it "
            "stops coming. Nothing is to be done while it fires.",
            board=Board.EXPORTER,
            shows=(),
        ),
    )


def _parts(v: Thresholds) -> tuple[Alert, ...]:
    return (
        Alert(
            "TDEProbeProcessDown",
            Severity.WARNING,
            "exporter",
            "tde_exporter_probe_process_up == 0",
            "Probe process {{ $labels.process }} of {{ $labels.instance }} is down",
            "A part of the exporter {{ $labels.instance }} does not come up again by itself, and all values of the databases "
            "that it probes are absent. The exporter's log says why it ended; a database driver or missing memory is the "
            "usual cause.",
            wait=v.exporter_down_for,
            keep=120,
            board=Board.EXPORTER,
            shows=_INSTANCE,
        ),
        Alert(
            "TDECollectorFailing",
            Severity.WARNING,
            "exporter",
            f"""
            {newest("tde_exporter_collector_success")} == 0
            unless on ({OF_TARGET})
            {newest("tde_target_up")} == 0
            """,
            "Collector {{ $labels.collector }} fails on {{ $labels.target }}",
            "The database answers, but the collector {{ $labels.collector }} gets nothing from it, so the values that it brings are "
            "missing and their alerts are silent. A missing grant is the usual cause: `tde-exporter selftest "
            "{{ $labels.target }}` or the exporter's log names it.",
            wait=v.collector_failing_for,
            keep=300,
            board=Board.EXPORTER,
            shows=("job", "target"),
        ),
    )


def _several() -> tuple[Alert, ...]:
    """What goes wrong where several exporters share a fleet. An exporter that is down has an alert of its own; one that
    Prometheus does not know any more is missed here only."""
    return (
        Alert(
            "TDEScratchLockElsewhere",
            Severity.WARNING,
            "exporter",
            "tde_exporter_scratch_lock_held == 0",
            "{{ $labels.instance }} is not the only exporter that writes to {{ $labels.target }}",
            "Somebody else has the lock that guards what exporters write into {{ $labels.target }}, so {{ $labels.instance }} measures "
            "there what only reads, and no lag of standbys; nothing is damaged. Mostly the database stands in two configurations, or a "
            "shard has two replicas: the landing page of {{ $labels.instance }} names the other one, and one of the two has to go.",
            wait=RESTART,
            keep=300,
            board=Board.EXPORTER,
            shows=(*_INSTANCE, "target"),
        ),
        Alert(
            "TDEShardMissing",
            Severity.WARNING,
            "exporter",
            """
            max by (job) (tde_exporter_configured_targets)
            - sum by (job) (tde_exporter_targets)
            > 0
            unless on (job)
            up == 0
            """,
            "Nobody watches {{ $value }} of the configured databases",
            "The exporters of the job {{ $labels.job }} have shares of one configuration, but together they watch {{ $value }} "
            "databases fewer than stand in it; alerts on those are silent. A shard was not started or is unknown to Prometheus, or "
            "the shards have other numbers than each other: the panel lists what each one has.",
            wait=RESTART,
            keep=300,
            board=Board.EXPORTER,
            shows=("job",),
        ),
    )


def _troubles(v: Thresholds) -> tuple[Alert, ...]:
    return (
        Alert(
            "TDEHistoryErrors",
            Severity.WARNING,
            "exporter",
            f"increase(tde_exporter_state_errors_total[{v.span(900)}]) > 0",
            "The TDE exporter {{ $labels.instance }} cannot use its history",
            "Reading or writing the file that keeps measurements and verdicts failed about {{ $value | humanize }} times in 15 "
            "minutes; alerts still work, but a restart now would lose what is not written down. Look for a full disk or wrong "
            "owner of the state directory; the exporter's log names the file.",
            keep=900,
            board=Board.EXPORTER,
            shows=_INSTANCE,
        ),
        Alert(
            "TDEExporterConfigReloadFailed",
            Severity.WARNING,
            "exporter",
            "tde_exporter_config_last_reload_successful == 0",
            "The TDE exporter {{ $labels.instance }} refused its new configuration",
            "The configuration was changed and could not be taken up, so {{ $labels.instance }} goes on with the one before, and "
            "a restart now would fail. `tde-exporter check` and the exporter's log name the line; mend it and reload.",
            wait=600,
            keep=120,
            board=Board.EXPORTER,
            shows=_INSTANCE,
        ),
        Alert(
            "TDESeriesRefused",
            Severity.WARNING,
            "exporter",
            f"increase(tde_exporter_series_refused_total[{v.span(900)}]) > 0",
            "The TDE exporter {{ $labels.instance }} leaves samples out of its page",
            "There are more samples than web.max_series allows, so what stands last on the page is missing without any other "
            "sign. Raise web.max_series, or give this exporter fewer targets and operations.",
            wait=900,
            keep=RESTART,
            board=Board.EXPORTER,
            shows=_INSTANCE,
        ),
    )


def _certificate(v: Thresholds) -> tuple[Alert, ...]:
    notice = v.seconds(v.certificate_notice_days * 86400)
    return (
        Alert(
            "TDEWebCertificateExpiring",
            Severity.WARNING,
            "exporter",
            f"tde_exporter_web_certificate_expiry_timestamp_seconds - time() < {notice}",
            "The certificate of the TDE exporter {{ $labels.instance }} ends soon",
            "The certificate with which {{ $labels.instance }} is scraped ends in {{ $value | humanizeDuration }}; then Prometheus "
            "refuses it, and nobody watches the databases. Renew it under the same name: the exporter takes the new one by itself.",
            wait=600,
            keep=120,
            board=Board.EXPORTER,
            shows=_INSTANCE,
        ),
    )


def _lost(v: Thresholds) -> tuple[Alert, ...]:
    return (
        Alert(
            "TDETargetMissing",
            Severity.INFO,
            "exporter",
            f"""
            group without ({DROPPED}) (last_over_time(tde_target_up[{v.span(86400)}:{v.span(600)}]))
            unless on ({OF_TARGET})
            tde_target_up
            and on (job)
            up == 1
            unless on (job)
            tde_exporter_probe_process_up == 0
            """,
            "{{ $labels.target }} is not watched any more",
            "The exporter runs, but within the last day the database {{ $labels.target }} went from its page: it was taken out of "
            "the configuration. If that was meant, nothing is to be done, and this ends by itself within a day.",
            wait=900,
            keep=RESTART,
            board=Board.FLEET,
            shows=("job",),
        ),
    )
