"""Reads the relays of a consensus, with or without server descriptors."""

from collections.abc import Sequence
from pathlib import Path

from penstock import _core, packed
from penstock.networks import params
from penstock.networks.relays import Relay, Source, counted

LARGEST = 2 << 30
"""The largest accepted file of descriptors [B]; a month of them has about 1 GiB."""


def read(data: bytes, path: Path, descriptors: Sequence[Path]) -> Source:
    """The relays that clients choose. A relay's link rate comes from its descriptor, otherwise from its weight."""
    texts = [
        (packed.read(each, LARGEST, "a day of server descriptors has some 30 MiB"), str(each)) for each in descriptors
    ]
    found = _core.of_consensus(data, str(path), texts)
    links = "the observed bandwidths of the descriptors" if texts else "consensus weights: no descriptors were given"
    notes = [
        f"{path.name}, {found['flavor']} consensus, valid after {found['valid_after']} UTC",
        f"links are {links}",
        *counted(found["unused"], "left out: not Fast, Running and Valid, or without weight or rate"),
        *counted(found["undescribed"], "without descriptor, with the consensus weight as link and no buckets"),
        *params.notes(data),
    ]
    return Source([Relay(*each) for each in found["relays"]], notes)
