"""Dagster's capture of what steps print, for runs in this process, out of reach of Ctrl-C.

Two processes a stream copy it to the terminal, and a terminal sends Ctrl-C to them as well: each would print a
traceback of its own. They are ended when the capture ends, and end by themselves when this process is gone.
"""

import signal
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from dagster._core.storage.compute_log_manager import CapturedLogContext
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager
from dagster._serdes import ConfigurableClassData

MODULE, CLASS = __name__, "UndisturbedLogs"
"""What the settings of an instance name."""


class UndisturbedLogs(LocalComputeLogManager):
    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        return cls(inst_data=inst_data, **config_value)

    @contextmanager
    def capture_logs(self, log_key: Sequence[str]) -> Generator[CapturedLogContext, None, None]:
        with ExitStack() as captured:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which they inherit
            try:
                context = captured.enter_context(super().capture_logs(log_key))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            yield context
