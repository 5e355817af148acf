"""How large a set in given shares can be, and what each class may hold of it: largest remainders, in exact arithmetic.

A class's supply and quota are in one unit, rollouts (`whole`) or what they add up to. `upsample`: how often each of the
supply may be used.
"""

from collections.abc import Mapping
from fractions import Fraction


def total_of(supply: Mapping[str, int], shares: Mapping[str, Fraction], upsample: int, whole: bool) -> Fraction:
    """How much of the unit the set holds."""
    wanted = {name: supply[name] for name, share in shares.items() if share > 0}
    if whole:
        total = Fraction(largest_size({name: n * upsample for name, n in supply.items()}, shares))
    else:
        total = min(n * upsample / shares[name] for name, n in wanted.items())
    return min(total, Fraction(sum(wanted.values()))) if upsample > 1 else total


def limiting_class(supply: Mapping[str, int], shares: Mapping[str, Fraction], total: Fraction) -> str | None:
    wanted = [name for name, share in shares.items() if share > 0]
    if total and total >= sum(supply[name] for name in wanted):
        return None
    return min(wanted, key=lambda name: (supply[name] / shares[name], name))


def budgets_of(
    total: Fraction, supply: Mapping[str, int], shares: Mapping[str, Fraction], whole: bool
) -> dict[str, int]:
    """What each class may hold, in the unit; a class without a target its natural share of it."""
    quota = quotas(int(total), shares) if whole else {name: int(total * share) for name, share in shares.items()}
    targeted = sum(supply[name] for name in shares)
    for name in supply.keys() - shares.keys():
        quota[name] = int((2 * total * supply[name] + targeted) // (2 * targeted)) if targeted else 0
    return quota


def exact_shares(target: Mapping[str, float]) -> dict[str, Fraction]:
    """Shares that add up to exactly 1, read as the decimals they were written as, by class name."""
    written = {name: Fraction(str(target[name])) for name in sorted(target)}
    total = sum(written.values())
    if total <= 0 or min(written.values()) < 0:
        raise ValueError("shares must be zero or more and at least one above zero")
    return {name: share / total for name, share in written.items()}


def quotas(total: int, shares: Mapping[str, Fraction]) -> dict[str, int]:
    """Largest-remainder apportionment of `total`; equal remainders go to the larger share, then by name."""
    exact = {name: total * share for name, share in shares.items()}
    quota = {name: int(value) for name, value in exact.items()}
    left = total - sum(quota.values())
    for name in sorted(exact, key=lambda n: (quota[n] - exact[n], -shares[n], n))[:left]:
        quota[name] += 1
    return quota


def largest_size(supply: Mapping[str, int], shares: Mapping[str, Fraction]) -> int:
    """The largest total whose quotas fit; 0 where a class with a share has no row.

    Every total up to min(supply / share) fits and none from min((supply + 1) / share) on, so the search is short.
    """
    wanted = [name for name, share in shares.items() if share > 0]
    if any(supply[name] == 0 for name in wanted):
        return 0
    size = int(min((supply[name] + 1) / shares[name] for name in wanted))
    while any(quota > supply[name] for name, quota in quotas(size, shares).items()):
        size -= 1
    return size
