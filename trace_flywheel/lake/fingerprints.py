"""Values that must not come back, known without being kept: keyed fingerprints that find them inside any text.

A sieve of rolling hashes names the places of a text where a value may begin, an HMAC over what stands there decides.
The key lies in a file of its own (`purged_key.json`, 0600): who has the fingerprints alone can test no guess.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from trace_flywheel.lake.files import PRIVATE_FILE, replace_text
from trace_flywheel.records.errors import FlywheelError

KEY_FILE = "purged_key.json"
SIEVED = 64
"""Bytes of a value that the sieve looks at: the start of a long one."""
BLOCK = 1 << 18
"""Bytes of text sieved at once: eight bytes of memory each, some five times over."""
_MODULUS = 1 << 64
_HALF = np.uint64(32)


class Fingerprint(msgspec.Struct, frozen=True):
    """One spelling of a value: its length in bytes, 32 bits of a keyed rolling hash of its start, a keyed digest."""

    size: int
    sieve: int
    mac: str


class Values(msgspec.Struct, frozen=True, dict=True):
    """What is sought: a key and fingerprints made with it."""

    key: bytes = b""
    prints: tuple[Fingerprint, ...] = ()

    def holds(self, text: bytes) -> bool:
        """Whether one of the values stands in a text."""
        return any(True for _ in self._found(text))

    def _found(self, text: bytes) -> Iterator[Fingerprint]:
        for start in range(0, len(text), BLOCK):
            block = text[start : start + BLOCK + SIEVED]
            sums: NDArray[np.uint64] | None = None
            for window, wanted in self._by_window.items():
                places = min(len(block) - window + 1, BLOCK)
                if places <= 0:
                    continue
                sums = _sums(self.key, block) if sums is None else sums
                hashes = (sums[window : window + places] - sums[:places]) * _powers(self.key)[0][:places]
                for at in np.flatnonzero(np.isin(hashes >> _HALF, wanted)).tolist():
                    yield from self._confirmed(text, start + at, window)

    def _confirmed(self, text: bytes, at: int, window: int) -> Iterator[Fingerprint]:
        for one in self.prints:
            fits = min(one.size, SIEVED) == window and len(text) - at >= one.size
            if fits and hmac.compare_digest(_mac(self.key, text[at : at + one.size]), one.mac):
                yield one

    @cached_property
    def _by_window(self) -> dict[int, NDArray[np.uint64]]:
        sieves: dict[int, list[int]] = {}
        for one in self.prints:
            sieves.setdefault(min(one.size, SIEVED), []).append(one.sieve)
        return {window: np.array(sorted(set(found)), dtype=np.uint64) for window, found in sorted(sieves.items())}


def fingerprint(key: bytes, value: bytes) -> Fingerprint:
    start = value[:SIEVED]
    return Fingerprint(len(value), int(_sums(key, start)[len(start)] >> _HALF), _mac(key, value))


def key_of(lake: Path) -> bytes:
    """The lake's key, made where there is none."""
    path = lake / KEY_FILE
    if not path.is_file():
        replace_text(path, msgspec.json.encode({"key": secrets.token_hex(32)}).decode() + "\n", PRIVATE_FILE)
    return known_key(lake)


def known_key(lake: Path) -> bytes:
    """The key that fingerprints were made with. Without it nothing can be checked: `FlywheelError`."""
    path = lake / KEY_FILE
    try:
        found: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        return bytes.fromhex(found["key"])
    except (OSError, msgspec.DecodeError, KeyError, ValueError) as error:
        raise FlywheelError(
            f"{path}: the key of erased values cannot be read ({error}); restore the file from a copy"
        ) from None


def values(lake: Path, prints: Iterable[Fingerprint]) -> Values:
    found = tuple(prints)
    return Values(known_key(lake), found) if found else Values()


def _mac(key: bytes, value: bytes) -> str:
    return hmac.new(key, value, hashlib.sha256).hexdigest()


@lru_cache(maxsize=4)
def _powers(key: bytes) -> Sequence[NDArray[np.uint64]]:
    """Powers of the key's odd base modulo 2^64, and of its inverse."""
    base = int.from_bytes(hmac.new(key, b"rolling hash", hashlib.sha256).digest()[:8], "little") | 1
    size = BLOCK + SIEVED
    made = []
    for factor in (base, pow(base, -1, _MODULUS)):
        powers = np.full(size, factor, dtype=np.uint64)
        powers[0] = 1
        made.append(np.cumprod(powers))
    return made


def _sums(key: bytes, text: bytes) -> NDArray[np.uint64]:
    """Prefix sums of the bytes times falling powers: the hash of a window is a difference, moved to the start."""
    data = np.frombuffer(text, dtype=np.uint8).astype(np.uint64) + np.uint64(1)
    return np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(data * _powers(key)[1][: len(text)])])
