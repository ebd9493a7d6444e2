"""What Linux tells about the machine this exporter runs on, and about the CPU of other processes' threads.

Everything comes from /proc, is None where that does not tell, and never raises. Whether a database's server runs on
this machine, and which of its threads does what, is for the caller to find out.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
NANO = 1e-9
TICKS_PER_SECOND = 100
"""Linux tells the times of /proc/stat and /proc/<pid>/stat in hundredths of a second on every machine."""

TaskTimes = dict[int, int]
"""CPU time of threads in nanoseconds, by thread id."""


@dataclass(frozen=True, slots=True)
class ThreadTime:
    """What a thread has used and has waited for a processor, in seconds since it began."""

    cpu: float
    waiting: float


class Host:
    """One machine; `cpu_ratio` remembers its last reading."""

    def __init__(self, proc: Path = PROC) -> None:
        self.proc = proc
        self._times: tuple[int, int] | None = None
        self._names: dict[int, str] = {}

    # -- the machine -----------------------------------------------------------------------------

    def cpu_ratio(self) -> float | None:
        """Share of all processors in use since the last call, 0..1; None at the first."""
        before, self._times = self._times, self._machine_times()
        if before is None or self._times is None:
            return None
        busy, total = (now - then for now, then in zip(self._times, before, strict=True))
        return min(1.0, max(0.0, busy / total)) if total > 0 else None

    def cpus(self) -> int | None:
        """Processors that are online."""
        lines = (self._text("stat") or "").splitlines()
        return sum(line.startswith("cpu") and line[3:4].isdigit() for line in lines) or None

    def aes(self) -> bool | None:
        """Whether the processors have instructions for AES."""
        for line in (self._text("cpuinfo") or "").splitlines():
            name, _, flags = line.partition(":")
            if name.strip() in ("flags", "Features"):
                return "aes" in flags.split()
        return None

    # -- threads and processes -------------------------------------------------------------------

    def thread(self, tid: int) -> ThreadTime | None:
        """Times of one thread, to the nanosecond; of a running one as of its last tick (4 ms at most)."""
        fields = (self._text(f"{tid}/schedstat") or "").split()
        # Three zeros stand for a kernel that does not count.
        if len(fields) < 3 or fields[2] == "0":
            return None
        return ThreadTime(int(fields[0]) * NANO, int(fields[1]) * NANO)

    def resting(self, tid: int) -> bool:
        """Whether a thread waits for something, so that its times are up to date."""
        _, _, fields = (self._text(f"{tid}/stat") or "").rpartition(")")
        return fields.split()[:1] == ["S"]

    def process_of(self, tid: int) -> int | None:
        """The process that a thread belongs to."""
        for line in (self._text(f"{tid}/status") or "").splitlines():
            name, _, value = line.partition(":")
            if name == "Tgid":
                return int(value)
        return None

    def process_cpu(self, pid: int) -> float | None:
        """Seconds of CPU that a process has used, all its threads that ever were, to a hundredth."""
        _, _, fields = (self._text(f"{pid}/stat") or "").rpartition(")")
        values = fields.split()
        return (int(values[11]) + int(values[12])) / TICKS_PER_SECOND if len(values) > 12 else None

    def tasks(self, pid: int, name_of_sessions: tuple[str, ...] = (), keep: int | None = None) -> TaskTimes | None:
        """The threads of a process, without those that are named as one that serves a session, except `keep`."""
        try:
            tids = [int(entry.name) for entry in (self.proc / str(pid) / "task").iterdir()]
        except OSError:
            return None
        times: TaskTimes = {}
        for tid in tids:
            if tid != keep and name_of_sessions and self._name(pid, tid) in name_of_sessions:
                continue
            fields = (self._text(f"{pid}/task/{tid}/schedstat") or "").split()
            if fields:
                times[tid] = int(fields[0])
        self._names = {tid: name for tid, name in self._names.items() if tid in times or tid in tids}
        return times or None

    def _name(self, pid: int, tid: int) -> str:
        if tid not in self._names:
            self._names[tid] = (self._text(f"{pid}/task/{tid}/comm") or "").strip()
        return self._names[tid]

    def _machine_times(self) -> tuple[int, int] | None:
        """Hundredths of seconds that all processors were busy, and that passed on all of them."""
        fields = [int(field) for field in (self._text("stat") or "").partition("\n")[0].split()[1:9]]
        if len(fields) < 8:
            return None
        user, nice, system, idle, waiting_for_disk, interrupts, soft_interrupts, stolen = fields
        busy = user + nice + system + interrupts + soft_interrupts + stolen
        return busy, busy + idle + waiting_for_disk

    def _text(self, path: str) -> str | None:
        # Also a UnicodeDecodeError (a thread may be named anything), and a ProcessLookupError of one that just ended.
        with contextlib.suppress(OSError):
            return (self.proc / path).read_bytes().decode(errors="replace")
        return None


def spent(before: TaskTimes, after: TaskTimes) -> float:
    """Seconds of CPU that threads used between two readings of `tasks`; one that ended in between is left out."""
    return sum(now - before.get(tid, 0) for tid, now in after.items()) * NANO
