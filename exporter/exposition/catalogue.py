"""The one table of metrics: what this exporter exposes, with type, labels and meaning.

Nothing is exposed that is not written here; `docs/metrics.md` is generated from it, and dashboards and
alerts are checked against it. The order is the order of the page, and so of importance: when a page
has more series than allowed, what comes last is left out first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How Prometheus shall read a metric; `info` is a gauge that is always 1 and carries facts as labels."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class Section(StrEnum):
    """The chapters of the reference."""

    TARGET = "Target"
    EXPORTER = "The exporter itself"
    PAIR = "Twin pairs"
    OVERHEAD = "Overhead"
    BASELINE = "Baselines and events"
    ENCRYPTION = "Encryption state"
    INSTANCE = "Instance"
    STANDBY = "Standbys"
    CANARY = "Canary"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family. `name` is the full name of its samples (counters end in `_total`).

    `help` is one line. `unit` is a word for people (`seconds`, `samples`, ``). `buckets` are the upper
    bounds of a histogram without +Inf. Of its `labels`, those of `SOMETIMES` are only on some samples.
    """

    name: str
    kind: Kind
    section: Section
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()


SOMETIMES = frozenset({"channel"})
"""Labels that a sample has only where there are several of what they name. Both formats and Prometheus allow samples
of one metric with and without a label; an empty one would mean the same, and be longer on every page."""

WINDOW, DAY = "1h", "24h"
"""The windows of the published statistics, as their label says."""

LATENESS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
NOISE_BUCKETS = (1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1)

_TARGET = ("target", "engine")
_PAIR = (*_TARGET, "pair")
_OPERATION = (*_PAIR, "operation")
_SIDE = (*_OPERATION, "variant")
_STANDBY = (*_TARGET, "standby")
_CHANNEL = (*_STANDBY, "channel")
_RATIO = (*_OPERATION, "percentile", "window")
_DETECTOR = (*_OPERATION, "percentile", "reference", "threshold")

_ENTRIES = (
    # -- target ------------------------------------------------------------------------------------------
    Metric("tde_target_up", Kind.GAUGE, Section.TARGET, "1 when the last attempt to reach and use the database worked, else 0; one that only waited for locks of others worked. Absent before the first attempt, and while its probe process is down, for then nobody knows.", _TARGET),
    Metric("tde_target_info", Kind.INFO, Section.TARGET, "Facts about the database, found at the last connect.", (*_TARGET, "flavor", "version", "role", "open_mode", "edition")),
    Metric("tde_target_connects_total", Kind.COUNTER, Section.TARGET, "Sessions opened.", _TARGET, "sessions"),
    Metric("tde_target_connect_seconds_total", Kind.COUNTER, Section.TARGET, "Time spent on opening sessions that were opened; it is never part of a canary's time.", _TARGET, "seconds"),
    Metric("tde_target_connection_errors_total", Kind.COUNTER, Section.TARGET, "Sessions that could not be opened or were lost, by reason. connect, auth, tls, timeout and unavailable start at 0, other reasons appear when they occur.", (*_TARGET, "reason"), "errors"),
    # -- the exporter itself -----------------------------------------------------------------------------
    Metric("tde_exporter_build_info", Kind.INFO, Section.EXPORTER, "Version of the exporter and of its Python.", ("version", "python")),
    Metric("tde_exporter_config_last_reload_successful", Kind.GAUGE, Section.EXPORTER, "1 when the configuration was taken up the last time it was read, at the start or by a reload; 0 when it was refused, and the one before is in use. The log says why."),
    Metric("tde_exporter_config_last_reload_success_timestamp_seconds", Kind.GAUGE, Section.EXPORTER, "When the configuration in use was taken up, Unix time.", (), "seconds"),
    Metric("tde_exporter_config_hash", Kind.GAUGE, Section.EXPORTER, "A number that stands for the configuration in use, defaults and environment included: the same configuration, the same number. Secrets are not part of it, their sources are; nor is the shard."),
    Metric("tde_exporter_shard", Kind.GAUGE, Section.EXPORTER, "Which share of the configured targets this exporter watches, counted from 0."),
    Metric("tde_exporter_shards", Kind.GAUGE, Section.EXPORTER, "How many exporters share the configured targets; 1: this one watches all. Where shards disagree about it, a target may be watched twice or by nobody.", (), "exporters"),
    Metric("tde_exporter_targets", Kind.GAUGE, Section.EXPORTER, "Targets that this exporter watches.", (), "targets"),
    Metric("tde_exporter_configured_targets", Kind.GAUGE, Section.EXPORTER, "Targets in the configuration, those of other shards included. Over all shards of one configuration, the sum of tde_exporter_targets is this number, or nobody watches the rest.", (), "targets"),
    Metric("tde_exporter_series", Kind.GAUGE, Section.EXPORTER, "Samples on this page.", (), "samples"),
    Metric("tde_exporter_series_refused_total", Kind.COUNTER, Section.EXPORTER, "Samples left out of pages because of the cap web.max_series, summed over all renderings.", (), "samples"),
    Metric("tde_exporter_page_errors_total", Kind.COUNTER, Section.EXPORTER, "Renderings of the page that failed; the last good page is served until it is too old.", (), "renderings"),
    Metric("tde_exporter_page_render_seconds", Kind.GAUGE, Section.EXPORTER, "What the previous rendering of the page took.", (), "seconds"),
    Metric("tde_exporter_probe_process_up", Kind.GAUGE, Section.EXPORTER, "1 while the probe process runs and reports. While it is 0, the gauges of its targets are absent.", ("process",)),
    Metric("tde_exporter_probe_process_starts_total", Kind.COUNTER, Section.EXPORTER, "How often the probe process was started; more than once means that it was killed or died.", ("process",), "starts"),
    Metric("tde_exporter_lanes_abandoned_total", Kind.COUNTER, Section.EXPORTER, "Lanes given up because a call into a driver did not come back and could not be cancelled.", (), "lanes"),
    Metric("tde_exporter_clock_steps_total", Kind.COUNTER, Section.EXPORTER, "Steps of the wall clock that were seen and mended.", (), "steps"),
    Metric("tde_exporter_messages_dropped_total", Kind.COUNTER, Section.EXPORTER, "Results of probe processes that were lost because the serving process did not take them in time.", (), "messages"),
    Metric("tde_exporter_runs_skipped_total", Kind.COUNTER, Section.EXPORTER, "Planned runs that did not happen: the one before had not ended (busy), the time had passed (missed), no canary time was left (budget, counted for each operation), a connection failed a short while ago (back_off), or the call never ended (abandoned).", ("reason",), "runs"),
    Metric("tde_exporter_schedule_lateness_seconds", Kind.HISTOGRAM, Section.EXPORTER, "Time from the planned to the real start of scheduled runs.", (), "seconds", LATENESS_BUCKETS),
    Metric("tde_exporter_timer_noise_seconds", Kind.HISTOGRAM, Section.EXPORTER, "Time of a canary that does nothing: differences below this noise floor cannot be seen.", (), "seconds", NOISE_BUCKETS),
    Metric("tde_exporter_state_bytes", Kind.GAUGE, Section.EXPORTER, "Size of the history on disk.", (), "bytes"),
    Metric("tde_exporter_state_errors_total", Kind.COUNTER, Section.EXPORTER, "Failures to read or write the history.", (), "errors"),
    Metric("tde_exporter_web_connections_refused_total", Kind.COUNTER, Section.EXPORTER, "Connections of clients that ended without an answer: web.max_connections were open (too_many), the client kept a deadline waiting (deadline), no TLS came about (tls), its certificate has no name that is allowed (certificate), or what it said is no HTTP (malformed).", ("reason",), "connections"),
    Metric("tde_exporter_web_requests_total", Kind.COUNTER, Section.EXPORTER, "Requests that were answered, by status code: 401 is a password that is missing or wrong, 413 and 431 a request that is too large, 429 one too many.", ("code",), "requests"),
    Metric("tde_exporter_web_certificate_expiry_timestamp_seconds", Kind.GAUGE, Section.EXPORTER, "When the certificate of this page ends, or the one of its chain that ends first, Unix time; absent where no TLS is spoken.", (), "seconds"),
    Metric("tde_exporter_collector_success", Kind.GAUGE, Section.EXPORTER, "1 when the collector's last run succeeded and the next one is not overdue by more than one of its intervals, else 0.", ("target", "collector")),
    Metric("tde_exporter_collector_duration_seconds", Kind.GAUGE, Section.EXPORTER, "What the collector's last run took.", ("target", "collector"), "seconds"),
    Metric("tde_exporter_collector_last_success_timestamp_seconds", Kind.GAUGE, Section.EXPORTER, "When the collector last succeeded, Unix time.", ("target", "collector"), "seconds"),
    Metric("tde_exporter_scratch_lock_held", Kind.GAUGE, Section.EXPORTER, "1 while this exporter has the advisory lock that guards what exporters write into the database, 0 while somebody else has it: then it measures what only reads, and the landing page says who. Absent while that is unknown, and where nothing is written.", ("target",)),
    Metric("tde_exporter_invalid_values_total", Kind.COUNTER, Section.EXPORTER, "Values from an engine that cannot be true (not a number, infinite, negative, unknown name); they were ignored.", ("target",), "values"),
    # -- pairs -------------------------------------------------------------------------------------------
    Metric("tde_pair_valid", Kind.GAUGE, Section.PAIR, "1 when the twins hold the same data and the pair matches its phase. While it is 0 there is no overhead.", _PAIR),
    Metric("tde_pair_info", Kind.INFO, Section.PAIR, "Facts about the pair: what is encrypted and how, which clock decides, where CPU and decrypt counts come from, which costs of encryption the plain twin pays as well.", (*_PAIR, "scope", "phase", "algorithm", "clock", "cpu_source", "decrypt_source", "shared_costs")),
    Metric("tde_pair_rows", Kind.GAUGE, Section.PAIR, "Rows of the twin.", (*_PAIR, "variant"), "rows"),
    Metric("tde_pair_rows_per_block", Kind.GAUGE, Section.PAIR, "Rows of the twin per block: encryption of columns costs per row, of blocks per block.", (*_PAIR, "variant"), "rows"),
    # -- overhead ----------------------------------------------------------------------------------------
    Metric("tde_overhead_ratio", Kind.GAUGE, Section.OVERHEAD, "Latency encrypted / plain at the percentile (1 is no overhead); of operations measured one query a tick only percentile 50. Absent below the sample gate. With tde_canary_blind 1 it is true, but says nothing about encryption.", _RATIO, "ratio"),
    Metric("tde_overhead_ratio_lower", Kind.GAUGE, Section.OVERHEAD, "Lower bound of the two-sided 95 % interval of tde_overhead_ratio; absent where the samples give none.", _RATIO, "ratio"),
    Metric("tde_overhead_ratio_upper", Kind.GAUGE, Section.OVERHEAD, "Upper bound of the two-sided 95 % interval of tde_overhead_ratio; absent where the samples give none.", _RATIO, "ratio"),
    Metric("tde_overhead_samples", Kind.GAUGE, Section.OVERHEAD, "Individually timed queries of one side in the window, failed ones included.", (*_SIDE, "window"), "samples"),
    Metric("tde_overhead_cpu_ratio", Kind.GAUGE, Section.OVERHEAD, "CPU encrypted / plain: the noise-robust twin of the latency ratio.", (*_OPERATION, "window"), "ratio"),
    Metric("tde_overhead_cpu_ratio_lower", Kind.GAUGE, Section.OVERHEAD, "Lower bound of the two-sided 95 % interval of tde_overhead_cpu_ratio.", (*_OPERATION, "window"), "ratio"),
    Metric("tde_overhead_cpu_ratio_upper", Kind.GAUGE, Section.OVERHEAD, "Upper bound of the two-sided 95 % interval of tde_overhead_cpu_ratio.", (*_OPERATION, "window"), "ratio"),
    Metric("tde_overhead_breach", Kind.GAUGE, Section.OVERHEAD, "1 while the encrypted side is slower than the reference (plain: its twin now; baseline: what the twins differed by before) by more than the threshold, as latched by sequential evidence; 0 again when the upper bound of the 1h ratio lies below the threshold, and for no other reason. What alerts read.", _DETECTOR),
    Metric("tde_overhead_onset_timestamp_seconds", Kind.GAUGE, Section.OVERHEAD, "When what led to the breach began, by the best split of the last day, Unix time; only while the breach lasts, and only where it can be told.", _DETECTOR, "seconds"),
    Metric("tde_overhead_onset_uncertainty_seconds", Kind.GAUGE, Section.OVERHEAD, "How far the true onset may lie from tde_overhead_onset_timestamp_seconds to either side.", _DETECTOR, "seconds"),
    Metric("tde_overhead_evidence", Kind.GAUGE, Section.OVERHEAD, "Sequential evidence for a breach, for display: its logarithm to base 10, at least -3. A breach begins at tde_overhead_evidence_threshold; then it begins anew.", _DETECTOR),
    Metric("tde_overhead_evidence_threshold", Kind.GAUGE, Section.OVERHEAD, "The evidence that suffices for a breach, of all series of that percentile, reference and threshold.", ("percentile", "reference", "threshold")),
    Metric("tde_overhead_state", Kind.GAUGE, Section.OVERHEAD, "What is known about the cost of an operation in one word: 1 for the state it is in, 0 for the others. The words: warming, within_budget, undecided, over_budget, no_data, held, blind, certifying.", (*_OPERATION, "state")),
    Metric("tde_overhead_order_bias_ratio", Kind.GAUGE, Section.OVERHEAD, "Self-test: median overhead of ticks that began encrypted / of those that began plain; far from 1 means that the order of the queries decides, not encryption.", _OPERATION, "ratio"),
    Metric("tde_decrypt_cost_seconds", Kind.GAUGE, Section.OVERHEAD, "CPU time that decrypting one block or value costs, over the last hour: the CPU that the encrypted twin takes more than the plain one, per decrypt. It assumes that the twins differ in nothing else; operations that also encrypt are left out, and of the others the one with the narrowest interval is shown.", (*_PAIR, "unit"), "seconds"),
    Metric("tde_decrypt_cost_seconds_lower", Kind.GAUGE, Section.OVERHEAD, "Lower bound of the two-sided 95 % interval of tde_decrypt_cost_seconds; below 0 no cost has been shown.", (*_PAIR, "unit"), "seconds"),
    Metric("tde_decrypt_cost_seconds_upper", Kind.GAUGE, Section.OVERHEAD, "Upper bound of the two-sided 95 % interval of tde_decrypt_cost_seconds.", (*_PAIR, "unit"), "seconds"),
    Metric("tde_encryption_cpu_cores_estimate", Kind.GAUGE, Section.OVERHEAD, "CPU cores that encryption uses in the whole instance now: its decrypts and encrypts per second times tde_decrypt_cost_seconds of the pair that knows it best. Assumes that encrypting costs what decrypting costs, and that the instance's blocks or values are like those of the twins. Absent where decrypts of the instance or their CPU cost are unknown.", _TARGET, "cores"),
    Metric("tde_encryption_cpu_cores_estimate_lower", Kind.GAUGE, Section.OVERHEAD, "Lower bound of tde_encryption_cpu_cores_estimate, from that of the cost; not below 0.", _TARGET, "cores"),
    Metric("tde_encryption_cpu_cores_estimate_upper", Kind.GAUGE, Section.OVERHEAD, "Upper bound of tde_encryption_cpu_cores_estimate, from that of the cost; absent where encrypts are not counted.", _TARGET, "cores"),
    # -- baselines and events ----------------------------------------------------------------------------
    Metric("tde_baseline_timestamp_seconds", Kind.GAUGE, Section.BASELINE, "When the baseline that a pair is compared with was frozen, Unix time; absent where there is none.", _PAIR, "seconds"),
    Metric("tde_baseline_overhead_ratio", Kind.GAUGE, Section.BASELINE, "Encrypted now / encrypted in the baseline, adjusted by the plain twin (difference in differences): what both twins suffered cancels. 1: nothing changed since then; with a baseline of two plain twins, what encryption costs, corrected for what the twins differ by.", _RATIO, "ratio"),
    Metric("tde_baseline_overhead_ratio_lower", Kind.GAUGE, Section.BASELINE, "Lower bound of the two-sided 95 % interval of tde_baseline_overhead_ratio.", _RATIO, "ratio"),
    Metric("tde_baseline_overhead_ratio_upper", Kind.GAUGE, Section.BASELINE, "Upper bound of the two-sided 95 % interval of tde_baseline_overhead_ratio.", _RATIO, "ratio"),
    Metric("tde_baseline_raw_ratio", Kind.GAUGE, Section.BASELINE, "Encrypted now / encrypted in the baseline without the adjustment: holds everything that changed since then, the workload above all.", _RATIO, "ratio"),
    Metric("tde_baseline_control_ratio", Kind.GAUGE, Section.BASELINE, "Plain now / plain in the baseline: what changed without any encryption. Where it is far from 1, tde_baseline_raw_ratio tells of the workload, not of encryption.", _RATIO, "ratio"),
    Metric("tde_baseline_latency_seconds", Kind.GAUGE, Section.BASELINE, "Frozen percentile of the time of canary queries, within 1.1 %. While both twins were plain, of the twin that is the encrypted one now.", (*_SIDE, "percentile"), "seconds"),
    Metric("tde_event_timestamp_seconds", Kind.GAUGE, Section.BASELINE, "When something happened to the target, marked by an operator or detected: the newest 20, of restarts and others the newest 5. event is its id; tde-exporter events list has the text.", (*_TARGET, "event", "kind"), "seconds"),
    # -- encryption state --------------------------------------------------------------------------------
    Metric("tde_keystore_state", Kind.GAUGE, Section.ENCRYPTION, "State of the keystore: 1 for the state it is in, 0 for the others.", (*_TARGET, "keystore", "state")),
    Metric("tde_keystore_info", Kind.INFO, Section.ENCRYPTION, "Facts about the keystore; raw is the engine's own word, seen_from the vantage.", (*_TARGET, "keystore", "type", "mode", "raw", "seen_from")),
    Metric("tde_keys_in_use", Kind.GAUGE, Section.ENCRYPTION, "Keys that encrypted objects refer to.", (*_TARGET, "keystore"), "keys"),
    Metric("tde_keys_missing", Kind.GAUGE, Section.ENCRYPTION, "Keys of tde_keys_in_use that the keystore cannot give: the objects encrypted with them cannot be read, at the latest after a restart.", (*_TARGET, "keystore"), "keys"),
    Metric("tde_master_key_activation_timestamp_seconds", Kind.GAUGE, Section.ENCRYPTION, "When the active master key was activated, Unix time.", (*_TARGET, "keystore"), "seconds"),
    Metric("tde_master_key_backed_up", Kind.GAUGE, Section.ENCRYPTION, "1 when the active master key was backed up since it was made, as the database knows, 0 when not.", (*_TARGET, "keystore")),
    Metric("tde_objects", Kind.GAUGE, Section.ENCRYPTION, "Inventory: objects of a kind by state of encryption.", (*_TARGET, "kind", "state"), "objects"),
    Metric("tde_object_bytes", Kind.GAUGE, Section.ENCRYPTION, "Inventory: size of the objects of a kind by state of encryption, where that is cheap to know.", (*_TARGET, "kind", "state"), "bytes"),
    Metric("tde_algorithm_objects", Kind.GAUGE, Section.ENCRYPTION, "Encrypted objects by algorithm.", (*_TARGET, "algorithm"), "objects"),
    Metric("tde_unprotected_dependents", Kind.GAUGE, Section.ENCRYPTION, "Parts of encrypted objects, and logs and temporary files that hold their data, that lie in the clear.", (*_TARGET, "kind"), "objects"),
    Metric("tde_conversion_progress_ratio", Kind.GAUGE, Section.ENCRYPTION, "Share that is done of an object that is being encrypted, decrypted or given another key; ten objects of a target at most.", (*_TARGET, "object"), "ratio"),
    Metric("tde_conversion_stalled", Kind.GAUGE, Section.ENCRYPTION, "1 when objects are pending or in progress and nothing has moved for an hour, else 0.", _TARGET),
    # -- instance ----------------------------------------------------------------------------------------
    Metric("tde_instance_decrypts_total", Kind.COUNTER, Section.INSTANCE, "Blocks or values that the whole instance has decrypted since its start; source tells whether the engine counts them (counter) or they are derived (proxy). Absent where neither can be done.", (*_TARGET, "unit", "source"), "blocks or values"),
    Metric("tde_instance_encrypts_total", Kind.COUNTER, Section.INSTANCE, "Blocks or values that the whole instance has encrypted since its start; source as for decrypts.", (*_TARGET, "unit", "source"), "blocks or values"),
    Metric("tde_instance_cpu_seconds_total", Kind.COUNTER, Section.INSTANCE, "CPU time that the database has used since its start.", _TARGET, "seconds"),
    Metric("tde_instance_reads_total", Kind.COUNTER, Section.INSTANCE, "Physical reads of the whole instance since its start.", _TARGET, "reads"),
    Metric("tde_instance_read_seconds_total", Kind.COUNTER, Section.INSTANCE, "Time spent in the reads of tde_instance_reads_total; the quotient of both rates is the latency of a read.", _TARGET, "seconds"),
    Metric("tde_instance_buffer_hit_ratio", Kind.GAUGE, Section.INSTANCE, "Share of the reads that found their block in memory.", _TARGET, "ratio"),
    Metric("tde_host_cpu_utilization_ratio", Kind.GAUGE, Section.INSTANCE, "Share of the processors of the database's host in use since the last reading. Absent where the exporter does not run on that host and the database does not tell; there it can be taken from node_exporter.", _TARGET, "ratio"),
    Metric("tde_host_cpus", Kind.GAUGE, Section.INSTANCE, "Processors of the database's host, where known.", _TARGET, "processors"),
    Metric("tde_host_aes_acceleration", Kind.GAUGE, Section.INSTANCE, "1 when the processors of the database's host have instructions for AES, 0 when not; absent when unknown.", _TARGET),
    # -- standbys ----------------------------------------------------------------------------------------
    Metric("tde_standby_configured", Kind.GAUGE, Section.STANDBY, "1 when the primary is set up to feed this standby, 0 when it does not know it. Stays when the standbys cannot be read.", _STANDBY),
    Metric("tde_standby_lag_known", Kind.GAUGE, Section.STANDBY, "1 when tde_standby_lag_seconds of this kind is known, else 0: the standby does not run, cannot be asked, or says what cannot be true.", (*_CHANNEL, "kind")),
    Metric("tde_standby_lag_seconds", Kind.GAUGE, Section.STANDBY, "How long the oldest change has been waiting that the standby has not received (transport), has received and not applied (apply), or the oldest heartbeat row that cannot be read there (heartbeat). 0 when there is none; absent when unknown, never negative.", (*_CHANNEL, "kind"), "seconds"),
    Metric("tde_standby_transport_running", Kind.GAUGE, Section.STANDBY, "1 while the standby is connected to receive changes, else 0.", _CHANNEL),
    Metric("tde_standby_apply_running", Kind.GAUGE, Section.STANDBY, "1 while the standby applies what it receives, else 0.", _CHANNEL),
    Metric("tde_standby_sequence", Kind.GAUGE, Section.STANDBY, "Sequence number that the standby has reached, by stage: received, applied.", (*_CHANNEL, "thread", "stage"), "changes"),
    Metric("tde_standby_gap_sequences", Kind.GAUGE, Section.STANDBY, "Log sequence numbers that the standby lacks between others that it has received; 0 when there is no gap.", _CHANNEL, "sequences"),
    Metric("tde_standby_destination_up", Kind.GAUGE, Section.STANDBY, "1 while the primary can send to this standby, as the primary sees it, 0 when its destination is in error or switched off.", _CHANNEL),
    Metric("tde_standby_master_key_match", Kind.GAUGE, Section.STANDBY, "0 when the standby lacks one of the keys that the primary's objects use: it cannot apply, or will not be readable after a switchover.", _CHANNEL),
    Metric("tde_standby_configured_delay_seconds", Kind.GAUGE, Section.STANDBY, "Lag that is set on purpose; subtract it before judging.", _CHANNEL, "seconds"),
    Metric("tde_standby_clock_skew_seconds", Kind.GAUGE, Section.STANDBY, "How far the standby's clock is ahead of the primary's; it is not part of the lag.", _CHANNEL, "seconds"),
    # -- canary ------------------------------------------------------------------------------------------
    Metric("tde_canary_runs_total", Kind.COUNTER, Section.CANARY, "Individually timed canary queries attempted, failed ones included. The dense snapshot at the start is not counted.", _SIDE, "runs"),
    Metric("tde_canary_run_failures_total", Kind.COUNTER, Section.CANARY, "Canary queries that failed, by reason. timeout starts at 0, other reasons appear when they occur.", (*_SIDE, "reason"), "runs"),
    Metric("tde_canary_last_success_timestamp_seconds", Kind.GAUGE, Section.CANARY, "When a canary query last succeeded, Unix time.", _SIDE, "seconds"),
    Metric("tde_canary_blind", Kind.GAUGE, Section.CANARY, "1 when the encrypted runs of the last hour passed nothing through the cipher: their overhead says nothing. Absent where decrypts cannot be counted.", _OPERATION),
    Metric("tde_canary_encrypted_failing", Kind.GAUGE, Section.CANARY, "1 while the encrypted side alone fails: five queries in a row with the plain side working, or at once when its key cannot be had. Absent for pairs whose twins are both plain.", _PAIR),
    Metric("tde_canary_boosted", Kind.GAUGE, Section.CANARY, "1 while more samples than configured are taken, because the evidence is near a decision, else 0. Absent for operations with one sample in a tick, which are never boosted, and for pairs whose twins are both plain.", _OPERATION),
    Metric("tde_canary_contended_total", Kind.COUNTER, Section.CANARY, "Ticks left out of the statistics because the exporter itself was in the way.", _TARGET, "ticks"),
    Metric("tde_canary_load_ratio", Kind.GAUGE, Section.CANARY, "Share of the last hour during which this target was executing canary queries; an hour that began before the exporter counts as idle until then. The dense snapshot at the start is not counted.", _TARGET, "ratio"),
    Metric("tde_canary_load_limit_ratio", Kind.GAUGE, Section.CANARY, "The configured limit of tde_canary_load_ratio: time_share_ratio, and on top of it boost_time_share_ratio for times in which operations are boosted.", _TARGET, "ratio"),
    Metric("tde_canary_budget_used_ratio", Kind.GAUGE, Section.CANARY, "Share of a budget that is in use: of what an hour may take, by the last hour (time, bytes_read, bytes_written, and boost_time, the time of the samples that tde_canary_boosted tells of), or of the sessions that may be open, now (sessions). Bytes that the engine cannot count are not charged.", (*_TARGET, "budget"), "ratio"),
    Metric("tde_canary_bytes_read_total", Kind.COUNTER, Section.CANARY, "Bytes that canary queries read from storage, discarded warm-ups included: blocks read times their size. Absent where the engine does not count them.", _TARGET, "bytes"),
    Metric("tde_canary_bytes_written_total", Kind.COUNTER, Section.CANARY, "Bytes that canary queries wrote: the blocks that the encrypted twin encrypted, and as many for the plain twin. Absent where the engine does not count them.", _TARGET, "bytes"),
    Metric("tde_canary_tier", Kind.GAUGE, Section.CANARY, "What the operation can say at the rate that interval, samples in a tick and budgets allow now: 1 P99 within an hour, 2 P50 within an hour and P99 only over a day, 3 P50 only (one sample in a tick, or too few in an hour).", _OPERATION),
    Metric("tde_canary_latency_seconds", Kind.GAUGE, Section.CANARY, "Exact percentile of the time of canary queries in the window, by the clock that decides. The 50th only, where one query a tick is measured. Absent when so many failed that the percentile is not finite.", (*_SIDE, "percentile", "window"), "seconds"),
    Metric("tde_canary_cold_ratio", Kind.GAUGE, Section.CANARY, "Share of canary queries in the last hour that touched storage.", _SIDE, "ratio"),
    Metric("tde_canary_cpu_seconds_total", Kind.COUNTER, Section.CANARY, "CPU time of the server (of the thread, for the embedded engine) spent in the runs.", _SIDE, "seconds"),
    Metric("tde_canary_server_seconds_total", Kind.COUNTER, Section.CANARY, "Time of the runs as the server itself reports it.", _SIDE, "seconds"),
    Metric("tde_canary_blocks_read_total", Kind.COUNTER, Section.CANARY, "Blocks physically read in the runs.", _SIDE, "blocks"),
    Metric("tde_canary_decrypts_total", Kind.COUNTER, Section.CANARY, "Blocks or values decrypted in the runs; source tells whether the engine counts them (counter) or they are derived (proxy).", (*_SIDE, "unit", "source"), "blocks or values"),
    Metric("tde_canary_encrypts_total", Kind.COUNTER, Section.CANARY, "Blocks or values encrypted in the runs of operations that write; source as for decrypts. Of one that reads it appears when it should ever encrypt anything.", (*_SIDE, "unit", "source"), "blocks or values"),
    Metric("tde_canary_phase_seconds_total", Kind.COUNTER, Section.CANARY, "Time of the successful runs by phase: execute, fetch, and commit for operations that write. Connecting is tde_target_connect_seconds_total.", (*_SIDE, "phase"), "seconds"),
)  # fmt: skip

CATALOGUE: dict[str, Metric] = {metric.name: metric for metric in _ENTRIES}
"""Every metric by name, in the order of the page."""
