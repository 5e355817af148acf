"""Which runs lie below some roots, and what each is called.

The walk goes top-down without following links or entering hidden folders, and asks the readers in order of precedence;
a claimed folder is owned whole. Whatever looks like a run and is not claimed is a problem, never silence: so are a
hidden folder that holds a run and a link that stands where a run's file would (`unvisited`). Only folders that a user
named raise (`RootError`): below them files may vanish or be unreadable at any moment.

`run_id` is `<root label>/<POSIX path below the root>`, a component percent-encoded where Dagster or a file system
refuses it; `path_of` takes it back.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.sources import registry
from trace_flywheel.sources.claims import claim_of
from trace_flywheel.sources.own_output import is_for_a_trainer, is_own_output
from trace_flywheel.sources.reader import (
    NAME_FAULT,
    Folder,
    ReadOptions,
    Run,
    Unit,
    dropped,
    is_nameable,
    listed,
    printable,
    size_of,
)
from trace_flywheel.sources.run_state import RunState
from trace_flywheel.sources.unvisited import HOME_FOLDERS, RESULT_FILES, TOOLS, is_home, marks, unvisited

Roots = Iterable[Path] | Mapping[str, Path]

# `...` is Dagster's range, `[ ] , * " |` its selections and composite keys; control characters it refuses outright.
_REFUSED = re.compile(r'[\x00-\x1f\x7f-\x9f%\[\],*"|\\/]|\.(?=\.\.)|(?<=\.)\.(?=\.)|(?<=\.\.)\.|^\.{1,2}$')


class RootError(FlywheelError):
    """A root that cannot be used. The text says which, why and what to do."""


class Discovery(msgspec.Struct, frozen=True):
    """The runs, sorted by `run_id`, and what looked like one and cannot be read."""

    runs: tuple[Run, ...]
    problems: tuple[Drop, ...]
    states: dict[str, RunState] = {}
    """By run id, of the runs that were looked through on the way."""


def discover(roots: Roots) -> Discovery:
    """The runs below `roots`: folders or single files, or a mapping of labels to them.

    A root inside another one gives no run twice. Raises `RootError` for a root that is missing, unreadable or whose
    label another root has.
    """
    runs: dict[str, Run] = {}
    problems: dict[str, Drop] = {}
    states: dict[str, RunState] = {}
    seen: set[str] = set()
    real_folders: dict[str, str] = {}
    named = _labelled(roots)
    places = {os.path.realpath(root): position for position, (_, root) in enumerate(named)}
    for position, (label, root) in enumerate(named):
        for found in _walk(label, root, states):
            path = found.path if isinstance(found, Run) else root / (found.path or "")
            if isinstance(found, Run) and path != root:
                real = _real_below(str(path), real_folders)
            else:
                real = os.path.realpath(path)
            if _owned(real, seen):
                continue
            if isinstance(found, Run):
                seen.add(real)
                runs[found.run_id] = found
            # What is not entered from here, and is a root of its own, is read as that.
            elif all(places.get(place, -1) <= position for place in _upwards(real)):
                told = msgspec.structs.replace(found, path=found.path and printable(found.path))
                problems.setdefault(str(path.parent.resolve() / path.name), told)
    ordered = sorted(problems.values(), key=lambda p: (p.run_id or "", p.path or "", p.reason))
    return Discovery(tuple(runs[run_id] for run_id in sorted(runs)), tuple(ordered), states)


def run_id_of(label: str, relative: str | Path = "") -> str:
    """The run id of a path below the root with this label; the root itself is its label alone."""
    parts = [part for part in Path(relative).parts if part != "."]
    return "/".join(_encoded(part) for part in (label, *parts))


def units(run: Run) -> Sequence[Unit]:
    """What is read of a run, one piece each, sorted by path; nothing of a run that is gone by now."""
    try:
        return registry.reader(run.format).units(run)
    except FileNotFoundError:
        return ()


def read_unit(run: Run, unit: Unit, options: ReadOptions) -> Iterator[Rollout | Drop]:
    """Read one unit. A fault that its reader did not foresee ends the unit as a Drop, and the run goes on.

    So does a path that is not UTF-8.
    """
    if not is_nameable(unit.path):
        yield dropped(run, unit, "bad_encoding", {"text": NAME_FAULT}, trace_id=printable(unit.path.name))
        return
    try:
        yield from registry.reader(run.format).read(run, unit, options)
    # The one fail-closed boundary of reading: one broken unit must not take a run of thousands with it.
    except Exception as error:
        # An operating system's error spells the path, which names machines and users: its words suffice.
        said = error.strerror if isinstance(error, OSError) else error
        yield dropped(run, unit, "unreadable_file", {"text": f"{type(error).__name__}: {said}"})


def _labelled(roots: Roots) -> list[tuple[str, Path]]:
    """Labels and absolute roots, outermost first, so that a root inside another one comes after it."""
    named = roots.items() if isinstance(roots, Mapping) else [("", given) for given in roots]
    by_label: dict[str, Path] = {}
    for label, given in named:
        root = place_of(given)
        label = label or root.name or "/"
        other = by_label.setdefault(label, root)
        if other != root:
            raise RootError(
                f"{root} and {other} have the same name {label!r}; rename one or give it a label of its own"
            )
    return sorted(by_label.items(), key=lambda item: (len(item[1].parts), item[0]))


def place_of(given: Path) -> Path:
    """The absolute path of a root: what its runs have as `root`. The result file of a run stands for the run."""
    spelt = given.absolute()
    path = Path(os.path.normpath(spelt))
    # Links stay: a root is called what the user called it. But `..` behind a link leads where the link does.
    if ".." in spelt.parts and os.path.realpath(path) != os.path.realpath(spelt):
        path = Path(os.path.realpath(spelt))
    return path.parent if path.name in RESULT_FILES and not path.is_dir() else path


def _walk(label: str, root: Path, states: dict[str, RunState]) -> Iterator[Run | Drop]:
    try:
        if root.is_dir():
            folder, base = listed(root), root
        else:
            root.stat()
            folder, base = Folder(root.parent, (), (root.name,)), root.parent
    except OSError as error:
        raise RootError(f"{root}: {error.strerror}; give a folder of runs, or one run") from None
    if root != base:
        claimed = registry.claimed_by(folder)
        if claimed is None:
            yield _problem(label, base, root, "unknown_shape", _unclaimed(folder, [root.name], alone=True))
        else:
            yield Run(run_id_of(label), claimed.format, base, root, claimed.finished(folder))
        return
    yield from _below(label, root, folder, states)


def _below(label: str, root: Path, top: Folder, states: dict[str, RunState]) -> Iterator[Run | Drop]:
    waiting = [(run_id_of(label), top)]
    while waiting:
        run_id, folder = waiting.pop()
        try:
            claim, home = claim_of(folder), is_home(folder.path)
        except FileNotFoundError:
            continue
        except OSError as error:  # a path that is too long for the system, say
            yield _problem(label, root, folder.path, "unreadable_file", error.strerror or type(error).__name__)
            continue
        if claim is not None:
            if claim.state is not None:
                states[run_id] = claim.state
            yield Run(run_id, claim.reader.format, root, folder.path, claim.finished)
            continue
        own: frozenset[str] = frozenset()
        if home:
            if folder.path != root:
                continue
            own = HOME_FOLDERS
        if names := marks(folder.files):
            yield _problem(label, root, folder.path, "unknown_shape", _unclaimed(folder, names))
        for path, text in unvisited(folder, root):
            yield _problem(label, root, path, "unreadable_file", text)
        for name in (name for name in reversed(folder.folders) if name not in TOOLS | own):
            try:
                waiting.append((f"{run_id}/{_encoded(name)}", listed(folder.path / name)))
            except FileNotFoundError:
                continue
            except OSError as error:
                text = error.strerror or type(error).__name__
                yield _problem(label, root, folder.path / name, "unreadable_file", text)


def _unclaimed(folder: Folder, names: list[str], alone: bool = False) -> str:
    """Why nobody reads these files; `alone`: the user named the only one, so its name says nothing new."""
    if made := [name for name in names if is_own_output(folder.path / name, folder.path)]:
        said = "made by flywheel, which does not read its own rows again"
    elif made := [name for name in names if is_for_a_trainer(folder.path / name, folder.path)]:
        said = "rows for a trainer, no runs; `flywheel convert` reads such a .jsonl file where it is named itself"
    else:
        made = [f"{name} (empty)" if size_of(folder.path / name) == 0 else name for name in names]
        said = "no format known here" if alone else "no format known here claims it"
    return said if alone else f"{said}: {', '.join(made[:3])}"


def _problem(label: str, root: Path, path: Path, reason: str, text: str) -> Drop:
    relative = path.relative_to(root)
    return Drop(Stage.READ, reason, {"text": text}, run_id=run_id_of(label, relative), path=relative.as_posix())


def _real_below(path: str, known: dict[str, str]) -> str:
    """`realpath` of a folder that the walk entered, so is no link itself; `known` are the folders above such ones."""
    folder, slash, name = path.rpartition(os.sep)
    if folder not in known:
        known[folder] = os.path.realpath(folder or os.sep)
    return known[folder].rstrip(os.sep) + slash + name


def _owned(real: str, seen: set[str]) -> bool:
    """Whether a path or a folder above it is among `seen`."""
    return any(place in seen for place in _upwards(real))


def _upwards(real: str) -> Iterator[str]:
    """A path and every folder above it."""
    while real:
        yield real
        real = real.rpartition(os.sep)[0]
    yield os.sep


def _encoded(part: str) -> str:
    if part.isascii() and not _REFUSED.search(part):
        return part
    escaped = _REFUSED.sub(lambda m: "".join(f"%{byte:02X}" for byte in m[0].encode()), part)
    return "".join(c if not "\udc80" <= c <= "\udcff" else f"%{ord(c) - 0xDC00:02X}" for c in escaped)
