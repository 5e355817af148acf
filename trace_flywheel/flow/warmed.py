"""Imported by the server of a refresh with much to do: what each of its processes would load for itself is there once.

Each step has processes of its own, and detectors, layouts and Arrow's functions take each of them a tenth of a second.
What cannot be built is built, and told, by the process that needs it.
"""

from contextlib import suppress
from importlib import import_module

from trace_flywheel.curation import machine_code
from trace_flywheel.curation.compiled import COMPILED
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.trainers.registry import layouts

for _module in ("trace_flywheel.flow.ingest", "trace_flywheel.flow.finishing", "pyarrow.compute"):
    import_module(_module)
layouts()
with suppress(Exception):  # an error here would end the server
    redactor(Policy())
with suppress(Exception):
    if COMPILED:
        machine_code.ready()
