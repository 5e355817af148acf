"""The objects below one address of an S3-compatible store: listed, read, created, replaced only as they were seen.

Credentials and endpoint come from `AWS_…`. Every fault is a `RemoteError` of one line.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trace_flywheel.records.errors import FlywheelError

BATCH = 1000
"""Names that one request may delete."""


class RemoteError(FlywheelError):
    """An object store that cannot be used, or whose state is not what this home builds on."""


class Objects:
    """The object store at `url` (`s3://bucket/prefix`)."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            import obstore
            from obstore.store import from_url
        except ImportError:
            raise RemoteError(f"{url}: object stores need the extra: pip install 'trace-flywheel[s3]'") from None
        plain = any(os.environ.get(name, "").startswith("http://") for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT"))
        self._api: Any = obstore
        try:
            self._store: Any = from_url(url, client_options={"allow_http": plain})
        except Exception as error:
            raise RemoteError(f"{url}: cannot be used ({error})") from None

    def listed(self, prefix: str) -> dict[str, str]:
        """Tags by name below a prefix."""
        try:
            batches = self._api.list(self._store, prefix.rstrip("/"))
            return {str(o["path"]).removeprefix(prefix): str(o["e_tag"]) for batch in batches for o in batch}
        except Exception as error:
            raise RemoteError(f"{self.url}: {_first_line(error)}") from None

    def read(self, name: str) -> tuple[bytes, str]:
        """An object's bytes and its tag."""
        answer = self._asked(self._api.get, name)
        return bytes(answer.bytes()), str(answer.meta["e_tag"])

    def blocks(self, name: str) -> Iterator[bytes]:
        """An object's bytes, some at a time."""
        try:
            yield from map(bytes, self._api.get(self._store, name).stream())
        except Exception as error:
            raise RemoteError(f"{self.url}/{name}: {_first_line(error)}") from None

    def create(self, name: str, file: Path) -> None:
        """Put a file where nothing stands; what stands there already is left as it is."""
        try:
            self._api.put(self._store, name, file, mode="create", use_multipart=False)
        except self._api.exceptions.AlreadyExistsError:
            return
        except Exception as error:
            raise RemoteError(f"{self.url}/{name}: cannot be written ({_first_line(error)})") from None

    def replace(self, name: str, text: bytes, tag: str | None) -> str | None:
        """Put a text over the object with this tag, or where nothing stands; its new tag. None: it is another now."""
        mode = "create" if tag is None else {"e_tag": tag}
        try:
            return str(self._api.put(self._store, name, text, mode=mode, use_multipart=False)["e_tag"])
        except Exception as error:
            if type(error).__name__ in ("AlreadyExistsError", "PreconditionError", "NotFoundError"):
                return None
            raise RemoteError(f"{self.url}/{name}: cannot be written ({_first_line(error)})") from None

    def delete(self, name: str) -> None:
        self._asked(self._api.delete, name)

    def delete_below(self, prefix: str) -> None:
        names = [prefix + name for name in self.listed(prefix)]
        for start in range(0, len(names), BATCH):
            self._asked(self._api.delete, names[start : start + BATCH])

    def _asked(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(self._store, *arguments)
        except Exception as error:
            raise RemoteError(f"{self.url}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
