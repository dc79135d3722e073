"""Reads downloads of tgen from lines of its logs, and from the same fields in analyses.

Source: shadow/tgen, `_tgenstream_log` of 1.x ([stream-success], [stream-error]) and `_tgentransfer_log` before it
([transfer-complete], [transfer-error]); all times count from the creation of the stream or transfer.
"""

import re
from collections.abc import Mapping
from typing import Any

from penstock.compare.source import Found, number, whole_number

_TAG = re.compile(r"\[(?:stream-success|transfer-complete|(stream-error|transfer-error))\]")
_FIELD = re.compile(r"([a-z][a-z-]*)=([^\s,\]]*)")


def read_log(text: str, found: Found) -> None:
    """Collect the downloads of a log with lines `<date> <time> <unix time> ... [stream-success] key=value...`."""
    for line in text.splitlines():
        tag = _TAG.search(line)
        if tag is None:
            continue
        words = line[: tag.start()].split()
        at = number(words[2]) if len(words) > 2 else None
        take(dict(_FIELD.findall(line, tag.end())), found, ok=tag[1] is None, at=at, parts={})


def take(
    fields: Mapping[str, Any], found: Found, *, ok: bool, at: float | None, parts: Mapping[str, float | None]
) -> None:
    """Collect the download of these fields, or count it as unread if it has no size."""
    done, _, asked = str(fields.get("payload-bytes-read", "")).partition("/")
    received = fields.get("payload-bytes-recv", done)
    size = whole_number(fields.get("recvsize")) or whole_number(asked) or whole_number(received)
    if size is None:
        # Servers and uploads receive no payload; they are no downloads.
        found.unread += number(received) != 0 and "payload-bytes-write" not in fields
        return
    steps = (
        _microseconds(fields, "command"),
        _microseconds(fields, "first-byte-recv", "first-byte"),
        _microseconds(fields, "last-byte-recv", "last-byte"),
    )
    error = None if ok else str(fields.get("error", ""))
    found.add_steps(size, steps, error, remote=str(fields.get("remote", "")), at=at, parts=parts)


def _microseconds(fields: Mapping[str, Any], *names: str) -> float | None:
    """The time of a step [s], under the first known name. If it is negative, the step did not happen."""
    for name in names:
        for unit, scale in (("usecs", 1e-6), ("msecs", 1e-3)):
            value = number(fields.get(f"{unit}-to-{name}"))
            if value is not None and value > 0:
                return value * scale
    return None
