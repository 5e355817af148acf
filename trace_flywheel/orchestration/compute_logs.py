"""Dagster's capture of what steps print, for runs in this process, without processes of its own.

Dagster copies each stream to the terminal by two processes, which a run of some seconds waits for. Here what was
printed goes on to the terminal when the capture ends; the page of the step has it at once.
"""

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TextIO

from dagster._core.execution.compute_logs import redirect_to_file
from dagster._core.storage.compute_log_manager import CapturedLogContext, ComputeIOType
from dagster._core.storage.local_compute_log_manager import IO_TYPE_EXTENSION, LocalComputeLogManager
from dagster._serdes import ConfigurableClassData

MODULE, CLASS = __name__, "LogsInFiles"
"""What the settings of an instance name."""


class LogsInFiles(LocalComputeLogManager):
    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        return cls(inst_data=inst_data, **config_value)

    @contextmanager
    def capture_logs(self, log_key: Sequence[str]) -> Generator[CapturedLogContext, None, None]:
        streams = ((sys.stdout, ComputeIOType.STDOUT), (sys.stderr, ComputeIOType.STDERR))
        with ExitStack() as captured:
            for stream, kind in streams:
                path = Path(self.get_captured_local_path(log_key, IO_TYPE_EXTENSION[kind]))
                captured.enter_context(_kept_in(path, stream))
            yield CapturedLogContext(log_key)
        Path(self.complete_artifact_path(log_key)).touch()  # type: ignore[no-untyped-call] # by which the page knows that no more comes


@contextmanager
def _kept_in(path: Path, stream: TextIO) -> Generator[None, None, None]:
    """What is printed stands in the file, and after the block where it would have gone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    before = path.stat().st_size
    try:
        with redirect_to_file(stream, str(path)):
            yield
    finally:
        with path.open(encoding="utf-8", errors="replace") as file, suppress(BrokenPipeError):
            file.seek(before)
            while some := file.read(1 << 16):
                stream.write(some)
            stream.flush()
