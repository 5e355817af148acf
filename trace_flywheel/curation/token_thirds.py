"""The hashes of the tokens of scripts with spaces: nearly all text there is, and one pass over every byte of it.

Each byte waits for the product of the one before, and where a token ends nobody can guess. So three thirds of a text go
side by side, without a branch; what each gives stands behind the one before it at the end.
"""

import numpy as np

from trace_flywheel.curation.compiled import compiled

BYTE_BASE = 0x9E3779B97F4A7C15
_BYTE_BASE, _ZERO = np.uint64(BYTE_BASE), np.uint64(0)


@compiled
def _fill_alone(data: np.ndarray, table: np.ndarray, token: np.uint64, hashes: np.ndarray, at: np.uint64) -> np.uint64:
    """Writes the hashes of the tokens from `at` on and returns where they end; `token`: of what is before the data."""
    for i in range(len(data)):
        byte = np.uint64(table[data[i]])
        hashes[at] = token
        at += np.uint64((byte == _ZERO) & (token != _ZERO))
        token = _ZERO if byte == _ZERO else token * _BYTE_BASE + byte
    hashes[at] = token
    return at + np.uint64(token != _ZERO)


@compiled
def _cut(data: np.ndarray, table: np.ndarray, at: int) -> int:
    """The first place from `at` on where no token is cut in two."""
    while at < len(data) and table[data[at]] != 0:
        at += 1
    return at


@compiled
def _moved(hashes: np.ndarray, start: np.uint64, end: np.uint64, to: np.uint64) -> np.uint64:
    """Moves hashes to the front, and returns where they end there."""
    for k in range(np.int64(end - start)):
        hashes[to + np.uint64(k)] = hashes[start + np.uint64(k)]
    return to + (end - start)


@compiled
def fill_spaced(data: np.ndarray, table: np.ndarray, hashes: np.ndarray) -> np.int64:
    """Writes the hashes of the tokens of a script with spaces and returns their number. (Of four the registers would
    not suffice.)"""
    one = _cut(data, table, len(data) // 3)
    two = _cut(data, table, max(one, len(data) * 2 // 3))
    left, middle, right = data[:one], data[one:two], data[two:]
    all_three = min(len(left), len(middle), len(right))
    # No third has more tokens, and one place behind them is written to.
    second = np.uint64(len(left) // 2 + 1)
    third = second + np.uint64(len(middle) // 2 + 1)
    a, b, c = _ZERO, second, third
    of_left, of_middle, of_right = _ZERO, _ZERO, _ZERO
    for i in range(all_three):
        x, y, z = np.uint64(table[left[i]]), np.uint64(table[middle[i]]), np.uint64(table[right[i]])
        hashes[a], hashes[b], hashes[c] = of_left, of_middle, of_right
        a += np.uint64((x == _ZERO) & (of_left != _ZERO))
        b += np.uint64((y == _ZERO) & (of_middle != _ZERO))
        c += np.uint64((z == _ZERO) & (of_right != _ZERO))
        of_left = _ZERO if x == _ZERO else of_left * _BYTE_BASE + x
        of_middle = _ZERO if y == _ZERO else of_middle * _BYTE_BASE + y
        of_right = _ZERO if z == _ZERO else of_right * _BYTE_BASE + z
    a = _fill_alone(left[all_three:], table, of_left, hashes, a)
    b = _fill_alone(middle[all_three:], table, of_middle, hashes, b)
    c = _fill_alone(right[all_three:], table, of_right, hashes, c)
    return np.int64(_moved(hashes, third, c, _moved(hashes, second, b, a)))
