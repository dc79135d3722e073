"""Reads downloads of tgen from lines of its logs, and from the same fields in analyses.

Source: shadow/tgen, `_tgenstream_log` of 1.x ([stream-success], [stream-error]) and `_tgentransfer_log` before it
([transfer-complete], [transfer-error]); all times count from when the stream, or transfer, was made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.compare.source import PARTS, Download, Found, number, whole_number

_TAG = re.compile(r"\[(?:stream-success|transfer-complete|(stream-error|transfer-error))\]")
_FIELD = re.compile(r"([a-z][a-z-]*)=([^\s,\]]*)")

TIMEOUTS = ("TIMEOUT", "STALLOUT")
"""The prefixes of errors for timeouts and stalls."""


def read_log(text: str, found: Found) -> None:
    """Collect the downloads of a log with lines `<date> <time> <unix time> ... [stream-success] key=value...`."""
    for line in text.splitlines():
        tag = _TAG.search(line)
        if tag is None:
            continue
        fields = dict(_FIELD.findall(line, tag.end()))
        words = line[: tag.start()].split()
        at = number(words[2]) if len(words) > 2 else None
        if not take(fields, ok=tag[1] is None, at=at, network="", found=found):
            found.unread += 1


def take(
    fields: Mapping[str, Any],
    *,
    ok: bool,
    at: float | None,
    network: str,
    found: Found,
    parts: Mapping[str, Any] | None = None,
) -> bool:
    """Collect the download of these fields; false if they have no size."""
    done, _, asked = str(fields.get("payload-bytes-read", "")).partition("/")
    size = whole_number(fields.get("recvsize")) or whole_number(asked)
    received = fields.get("payload-bytes-recv", done)
    size = size or whole_number(received)
    if size is None:
        # Servers and uploads receive nothing.
        return number(received) == 0 or "payload-bytes-write" in fields
    steps = {
        "command": _microseconds(fields, "command"),
        "first_byte": _microseconds(fields, "first-byte-recv", "first-byte"),
        "last_byte": _microseconds(fields, "last-byte-recv", "last-byte"),
    }
    keep(
        steps,
        size=size,
        ok=ok,
        error=str(fields.get("error", "")),
        remote=str(fields.get("remote", "")),
        at=at,
        network=network,
        found=found,
        parts=parts,
    )
    return True


def keep(
    steps: Mapping[str, float | None],
    *,
    size: int,
    ok: bool,
    error: str,
    remote: str,
    at: float | None,
    network: str,
    found: Found,
    parts: Mapping[str, Any] | None = None,
) -> None:
    """Collect a download with the times of its steps [s]; `parts` has the seconds until so many bytes."""
    if ".onion" in remote:
        found.onion += 1
        return
    if not ok:
        outcome = "timeout" if error.upper().startswith(TIMEOUTS) else "failed"
        found.rows.append(Download(network=network, bytes=size, at_s=at, outcome=outcome))
        return
    command, first, last = steps.get("command"), steps.get("first_byte"), steps.get("last_byte")

    def row(of: int, end: float | None, *, part: bool) -> Download:
        since = (_since(command, first), _since(command, end))
        return Download(network, 0, None, of, part, at, "ok", first, end, *since)

    found.rows.append(row(size, last, part=False))
    for of in PARTS:
        end = number((parts or {}).get(str(of)))
        if of < size and end is not None and end > 0:
            found.rows.append(row(of, end, part=True))


def _microseconds(fields: Mapping[str, Any], *names: str) -> float | None:
    """A step's time [s] under the first known name; negative times mean that it did not happen."""
    for name in names:
        for unit, scale in (("usecs", 1e-6), ("msecs", 1e-3)):
            value = number(fields.get(f"{unit}-to-{name}"))
            if value is not None and value > 0:
                return value * scale
    return None


def _since(command: float | None, time: float | None) -> float | None:
    return time - command if command is not None and time is not None and time >= command else None
