"""The canary operations on one twin, each timed by itself.

Between the two readings of the clock there is nothing but the driver's own calls. Counters come from
the pager of the connection that did the work: `CACHE_MISS` counts pages that were read, and in an
encrypted file each of them was decrypted; `CACHE_WRITE` counts pages that were encrypted and written.
A checkpoint works below the pager; `writing.checkpoint` says how its pages are counted.
"""

from __future__ import annotations

from collections.abc import Callable

from exporter.domain.model import Execution, Operation
from exporter.engines.sqlite import reading, writing
from exporter.engines.sqlite.twin import OpenTwin

_READING: dict[Operation, Callable[[OpenTwin, int, int], Execution]] = {
    Operation.POINT_SELECT: reading.point_select,
    Operation.POINT_SELECT_COLD: reading.point_select_cold,
    Operation.RANGE_SELECT: reading.range_select,
    Operation.RANGE_SELECT_COLD: reading.range_select_cold,
    Operation.INDEX_COUNT: reading.index_count,
    Operation.INDEX_COUNT_COLD: reading.index_count_cold,
    Operation.SORTED_SELECT: reading.sorted_select,
    Operation.SORTED_SELECT_COLD: reading.sorted_select_cold,
    Operation.FULL_SCAN: reading.full_scan,
    Operation.FULL_SCAN_COLD: reading.full_scan_cold,
}
_WRITING: dict[Operation, Callable[[OpenTwin, int, int], Execution]] = {
    Operation.INSERT_BATCH: writing.insert_batch,
    Operation.UPDATE_BATCH: writing.update_batch,
    Operation.DELETE_REPLENISH: writing.delete_replenish,
    Operation.CHECKPOINT: writing.checkpoint,
}

OPERATIONS = _READING | _WRITING
"""What runs an operation: called with the twin, the number of rows of its phonebook, and the key."""
WRITING = frozenset(_WRITING)
"""Operations that need the scratch lock."""
