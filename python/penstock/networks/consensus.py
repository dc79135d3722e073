"""Reads the relays of a consensus, with or without server descriptors."""

from collections.abc import Sequence
from pathlib import Path

from penstock import _core, catalog, paths
from penstock.networks import params
from penstock.networks.relays import Relay, Source, counted


def read(data: bytes, path: Path, descriptors: Sequence[Path]) -> Source:
    """The relays that clients choose. A relay's link rate comes from its descriptor, otherwise from its weight."""
    given = paths.described(descriptors)
    found = _core.of_consensus(data, str(path), given)
    if given is None:
        links = "consensus weights, and relays have no families: no descriptors were given"
        catalog.warn(f"{path}: {paths.NO_FAMILIES}")
    elif given.has_bandwidths():
        links = "the observed bandwidths of the descriptors"
    else:
        links = "consensus weights: no server descriptors were given"
    relays = [Relay(*each[:-1], family=tuple(each[-1])) for each in found["relays"]]
    in_family = sum(bool(relay.family) for relay in relays)
    notes = [
        f"{path.name}, {found['flavor']} consensus, valid after {found['valid_after']} UTC",
        f"links are {links}",
        *([] if given is None else [f"{in_family} of {len(relays)} relays are in a family"]),
        *counted(found["unused"], "left out: not Fast, Running and Valid, or without weight or rate"),
        *counted(found["undescribed"], "without descriptor, with the consensus weight as link and no buckets"),
        *params.notes(data),
    ]
    return Source(relays, notes)
