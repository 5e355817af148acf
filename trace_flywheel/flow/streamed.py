"""One function's results, made in a process of its own and handed over one by one: its memory goes with it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar, cast

from trace_flywheel.flow.children import end_with_the_caller, may_have_children
from trace_flywheel.flow.fork_server import context_of
from trace_flywheel.flow.workers import Crash, guarded
from trace_flywheel.records.errors import FlywheelError

Task = TypeVar("Task")
Result = TypeVar("Result")


def streamed(function: Callable[[Task], Iterable[Result]], task: Task) -> Iterator[Result]:
    """What `function(task)` yields, made in a process of its own, whose memory goes with it.

    A fault of it comes as `FlywheelError`. Few results are ahead of the reader: a pipe holds them.
    """
    if not may_have_children():
        yield from function(task)
        return
    context = context_of(function)
    receiver, sender = context.Pipe(duplex=False)
    # A daemon: it ends with this process, should the reader stop in the middle.
    process = context.Process(target=_send, args=(sender, function, task), daemon=True)
    process.start()
    sender.close()
    try:
        while (result := _received(receiver)) is not None:
            yield result[0]
    finally:
        receiver.close()  # whoever still sends then ends
        process.join()


def _received(receiver: Any) -> tuple[Any] | None:
    try:
        result = receiver.recv()
    except EOFError:
        result = Crash("the process that worked on it died (out of memory, or a crash in a library)", died=True)
    if isinstance(result, Crash):
        raise FlywheelError(result.reason)
    return cast("tuple[Any] | None", result)


def _send(sender: Any, function: Callable[[Any], Iterable[Any]], task: Any) -> None:
    def all_of(_: None, task: Any) -> None:
        for result in function(task):
            sender.send((result,))

    end_with_the_caller()
    crash = guarded(all_of, None, task)
    with suppress(OSError):  # the reader is gone: it wanted no more
        sender.send(crash)
