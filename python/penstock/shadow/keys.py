"""Keys of C tor, which the programs `tor` and `tor-gencert` generate in the folders of hosts."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import PenstockError

KEPT = ("keys",)
"""The content of a relay's folder that Shadow needs."""

MONTHS = 12
"""The validity of an authority's signing key. Shadow starts in 2000, before the end of each validity."""


def relay(tor: str, folder: Path) -> str:
    """Generate the identity of a relay in its folder, and return its fingerprint.

    Raises:
        PenstockError: if the program is missing or fails.
    """
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    # The relay needs an address and an authority to start, but they do not influence its keys.
    words = [tor, "-f", "/dev/null", "--ignore-missing-torrc", "--defaults-torrc", "/dev/null", "--hush"]
    words += ["--list-fingerprint", "--ORPort", "9001", "--Address", "100.0.0.1", "--Nickname", "key"]
    words += ["--DirAuthority", f"key 127.0.0.1:1 {'F' * 40}", "--DataDirectory", str(folder)]
    _run(words)
    found = folder / "fingerprint"
    if not found.is_file():
        raise PenstockError(f"{tor} generated no identity in {folder}; is it C tor 0.4.9?")
    fingerprint = found.read_text(encoding="ascii").split()[1]
    for path in folder.iterdir():
        if path.is_file():
            path.unlink()
    return fingerprint


def authority(gencert: str, folder: Path, address: str) -> str:
    """Generate the voting keys of an authority in its folder, and return the fingerprint of its certificate.

    Raises:
        PenstockError: if the program is missing or fails.
    """
    keys = folder / "keys"
    keys.mkdir(parents=True, mode=0o700, exist_ok=True)
    files = {"-i": "authority_identity_key", "-s": "authority_signing_key", "-c": "authority_certificate"}
    words = [gencert, "--create-identity-key", "--passphrase-fd", "0", "-m", str(MONTHS), "-a", address]
    for option, name in files.items():
        words += [option, str(keys / name)]
    _run(words, b"simulated\n")
    certificate = (keys / "authority_certificate").read_text(encoding="ascii")
    found = re.search(r"^fingerprint ([0-9A-F]{40})$", certificate, re.MULTILINE)
    if found is None:
        raise PenstockError(f"{gencert} wrote a certificate without a fingerprint")
    return found[1]


def _run(words: Sequence[str], given: bytes = b"") -> None:
    try:
        done = subprocess.run(words, input=given, capture_output=True, check=False)  # noqa: S603
    except OSError as error:
        raise PenstockError(
            f"the keys need {words[0]}, which cannot run ({error.strerror}); install Debian's package tor, or name the"
            " program with --tor or --gencert"
        ) from None
    if done.returncode:
        last = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()[-1:]
        raise PenstockError(f"{words[0]} failed: {last[0] if last else f'status {done.returncode}'}")
