"""An erasure that another home of the same object store made, carried out in this one.

What is shared comes by itself: partitions, tombstones, the newest versions. What only this home has does not: older
versions, what was gathered of the index, indexes of corpora, exports. They are gone through once for each state of the
tombstones, which `obeyed` in the lake remembers, so that a pass that was killed is made again.
"""

from trace_flywheel.flow import erasure_reach as reach
from trace_flywheel.flow import gathered
from trace_flywheel.flow.erasable import named_in, published
from trace_flywheel.lake import dataset, lines
from trace_flywheel.lake.files import replace_text
from trace_flywheel.lake.purged import FILE, address_of, tombstones
from trace_flywheel.lake.remote import Remote
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.canonical import sha256_hex

OBEYED = "obeyed"


def obey(lake: Lake, remote: Remote) -> None:
    """Remove what this home alone keeps of what was erased since it looked last. Versions that the store does not have
    go whole: whether an erased value stands in one cannot be known without the value."""
    path, noted = lake.root / FILE, lake.root / OBEYED
    state = sha256_hex(path.read_bytes()) if path.is_file() else ""
    if state == (noted.read_text("utf-8").strip() if noted.is_file() else ""):
        return
    gathered.forget(lake)
    lines.forget(lake)
    there = remote.versions()
    gone = [v for v in published(lake) if v.path.relative_to(lake.home).as_posix() not in there]
    for version in gone:
        dataset.remove(version.path)
    buried = {stone.address for stone in tombstones(lake.root)}
    for version in published(lake):
        dataset.forget(version, {at for at in named_in(version) if address_of(*at) in buried})
    reach.forget_rows(lake, {reach.name_of_version(version) for version in gone})
    reach.remove_exports(lake)
    replace_text(noted, state + "\n")
