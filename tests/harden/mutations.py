"""Damage as it happens: files cut, flipped, doubled, misspelt, replaced, and JSON values that no schema foresaw.

Every mutation is drawn from the generator that is given, so a round is repeated by its seed.
"""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

BYTES = (b"\xff", b"\xef\xbb\xbf", b"\x00", b"\xe2\x80\xa8", b"\xed\xa0\x80", b'"', b"{", b"]", b"\r\n", b"\n")
TEXTS = ("\\ud800", "NaN", "-Infinity", "1e999", "[" * 3000, '{"a":' * 3000, "0" * 400, "\\u0000")
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 1e308, 10**30, "", " ", "NaN", "None", "null", "[]", "{}", [], {}, [[]], [None]),
    *({"": None}, {"type": "text"}, {"role": "tool"}, {"role": "critic"}, "\u2028", "\x00", "\ud83d", "x" * 5000),
)
MEMBERS = ("role", "content", "tool_calls", "tool_call_id", "messages", "reward", "rewards", "verdict", "id")


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """The file's bytes after one to three accidents."""
    for _ in range(rng.randint(1, 3)):
        data = rng.choice(ACCIDENTS)(data, rng)
    return data


def damage_tree(root: Path, rng: random.Random) -> list[str]:
    """One to five accidents to the files below `root`; what was done to which, in words."""
    done = []
    for _ in range(rng.randint(1, 5)):
        files = sorted(path for path in root.rglob("*") if path.is_file())
        if not files:
            break
        path = rng.choice(files)
        done.append(f"{rng.choice(('bytes',) * 6 + tuple(PLACES))} {path.relative_to(root)}")
        kind = done[-1].split()[0]
        if kind == "bytes":
            path.write_bytes(damaged_bytes(path.read_bytes(), rng))
        else:
            PLACES[kind](path, files, rng)
    return done


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randint(0, len(data))]


def _flip(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice((*BYTES, *(text.encode() for text in TEXTS))) + data[at:]


def _lines(data: bytes, rng: random.Random) -> bytes:
    """Lines doubled, lost or in another order."""
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(3)
    if kind == 0:
        lines.insert(at, lines[other])
    elif kind == 1:
        del lines[at]
    else:
        lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


def _value(data: bytes, rng: random.Random) -> bytes:
    """One JSON value of the file, or of one of its lines, replaced, lost or renamed."""
    lines = data.split(b"\n")
    for part in ([data], lines):
        at = rng.randrange(len(part))
        try:
            document = json.loads(part[at])
        except (ValueError, RecursionError):  # an accident before made it so deep
            continue
        _change(document, rng)
        text = json.dumps(document).encode()
        return text if part is not lines else b"\n".join([*lines[:at], text, *lines[at + 1 :]])
    return _flip(data, rng)


def _change(document: Any, rng: random.Random) -> None:
    """A walk down to a random member, which is changed in place."""
    while isinstance(document, dict | list) and document:
        keys: list[Any] = list(document) if isinstance(document, dict) else list(range(len(document)))
        key = rng.choice(keys)
        inner = document[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.85:
            document = inner
            continue
        kind = rng.randrange(4)
        if kind == 0:
            del document[key]
        elif kind == 1 and isinstance(document, dict):
            document[rng.choice(MEMBERS)] = document.pop(key)
        else:
            document[key] = rng.choice(VALUES)
        return


def _gone(path: Path, files: list[Path], rng: random.Random) -> None:
    path.unlink()


def _a_folder(path: Path, files: list[Path], rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _a_pipe(path: Path, files: list[Path], rng: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _a_link(path: Path, files: list[Path], rng: random.Random) -> None:
    path.unlink()
    path.symlink_to(rng.choice(("/etc/hostname", ".", path.name, str(rng.choice(files)), "nowhere")))


def _another(path: Path, files: list[Path], rng: random.Random) -> None:
    path.write_bytes(rng.choice(files).read_bytes())


def _copied(path: Path, files: list[Path], rng: random.Random) -> None:
    """The folder once more, beside itself."""
    target = path.parent.with_name(f"{path.parent.name}-copy")
    if not target.exists():
        shutil.copytree(path.parent, target, symlinks=True, copy_function=_copy)


def _copy(source: str, target: str) -> None:
    """A file, or what an accident before put in its place."""
    if Path(source).is_fifo():
        os.mkfifo(target)
    else:
        shutil.copy2(source, target)


ACCIDENTS: tuple[Callable[[bytes, random.Random], bytes], ...] = (_cut, _flip, _insert, _lines, _value, _value, _value)
PLACES: dict[str, Callable[[Path, list[Path], random.Random], None]] = {
    "gone": _gone,
    "folder": _a_folder,
    "pipe": _a_pipe,
    "link": _a_link,
    "another": _another,
    "copied": _copied,
}
