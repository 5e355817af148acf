"""The objects below one address of an S3-compatible store: listed, read, created, replaced only as they were seen.

Credentials and endpoint come from `AWS_…`. What ends in 5xx, in a lost connection or in silence is asked again, for
about a minute; every fault that stays is a `RemoteError` of one line.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from trace_flywheel.records.errors import FlywheelError

BATCH = 1000
"""Names that one request may delete."""
PIECE = 8 * 2**20
"""Bytes of a request: larger files go in pieces, so that none is held whole and a lost connection costs one piece."""
PATIENCE = {"connect_timeout": "10s", "read_timeout": "60s", "timeout": "1h"}
"""For a connection, for a sign of life, for an object: the package's own 30 seconds are short for a large one."""


RETRIES: Any = {"max_retries": 1000, "retry_timeout": timedelta(minutes=1)}
"""With longer and longer pauses; the package's own ten tries are over in four seconds."""
ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")


class RemoteError(FlywheelError):
    """An object store that cannot be used, or whose state is not what this home builds on."""


class MissingError(RemoteError):
    """An object that is not there."""


class Objects:
    """The object store at `url` (`s3://bucket/prefix`); every character of the prefix stands for itself."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            import obstore
            from obstore.store import S3Store
        except ImportError:
            raise RemoteError(f"{url}: object stores need the extra: pip install 'trace-flywheel[s3]'") from None
        endpoints = {name: os.environ[name] for name in ENDPOINTS if os.environ.get(name)}
        for name, endpoint in endpoints.items():
            if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", endpoint):  # at which the package would panic
                raise RemoteError(f"{url}: {name} is no address: {endpoint!r}")
        plain = any(endpoint.startswith("http://") for endpoint in endpoints.values())
        self._api: Any = obstore
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        options: Any = {"allow_http": plain, **PATIENCE}
        try:
            self._store: Any = S3Store(bucket, prefix=prefix or None, client_options=options, retry_config=RETRIES)
        except Exception as error:
            raise RemoteError(f"{url}: cannot be used ({_reason(error)})") from None

    def __reduce__(self) -> tuple[type["Objects"], tuple[str]]:
        """Another process opens the store for itself."""
        return Objects, (self.url,)

    def listed(self, prefix: str) -> dict[str, str]:
        """Tags by name below a prefix."""
        return {name: str(found["e_tag"]) for name, found in self._found(prefix)}

    def older(self, prefix: str, than: datetime) -> list[str]:
        """Names below a prefix of what was put before a moment."""
        return [name for name, found in self._found(prefix) if found["last_modified"] < than]

    def _found(self, prefix: str) -> Iterator[tuple[str, Any]]:
        try:
            for batch in self._api.list(self._store, prefix.rstrip("/")):
                for one in batch:
                    yield str(one["path"]).removeprefix(prefix), one
        except Exception as error:
            raise self._fault(error) from None

    def read(self, name: str) -> tuple[bytes, str]:
        """An object's bytes and its tag. Raises `MissingError`."""
        answer = self._asked(self._api.get, name)
        try:
            return bytes(answer.bytes()), str(answer.meta["e_tag"])
        except Exception as error:
            raise self._fault(error, name) from None

    def blocks(self, name: str) -> Iterator[bytes]:
        """An object's bytes, some at a time. Raises `MissingError`."""
        try:
            yield from map(bytes, self._api.get(self._store, name).stream())
        except Exception as error:
            raise self._fault(error, name) from None

    def create(self, name: str, file: Path) -> None:
        """Put a file where nothing stands; what stands there already is left as it is."""
        try:
            if file.stat().st_size <= PIECE:
                self._api.put(self._store, name, file, mode="create", use_multipart=False)
            elif not self._stands(name):
                # In pieces there is no condition; it appears whole, and another writer's would be the same.
                self._api.put(self._store, name, file, use_multipart=True, chunk_size=PIECE, max_concurrency=2)
        except self._api.exceptions.AlreadyExistsError:
            return
        except Exception as error:
            raise self._fault(error, name) from None

    def _stands(self, name: str) -> bool:
        try:
            self._api.head(self._store, name)
        except FileNotFoundError:
            return False
        return True

    def replace(self, name: str, text: bytes, tag: str | None) -> str | None:
        """Put a text over the object with this tag, or where nothing stands; its new tag. None: it is another now."""
        mode = "create" if tag is None else {"e_tag": tag}
        try:
            return str(self._api.put(self._store, name, text, mode=mode, use_multipart=False)["e_tag"])
        except Exception as error:
            if type(error).__name__ not in ("AlreadyExistsError", "PreconditionError"):
                raise self._fault(error, name) from None
        # A request that nobody answered may have been carried out: then it is this text that stands there.
        try:
            now, its_tag = self.read(name)
        except MissingError:
            return None
        return its_tag if now == text else None

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects; what is not there is left so."""
        names = list(names)
        for start in range(0, len(names), BATCH):
            self._asked(self._api.delete, names[start : start + BATCH])

    def _asked(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(self._store, *arguments)
        except Exception as error:
            raise self._fault(error, *(a for a in arguments if isinstance(a, str))) from None

    def _fault(self, error: Exception, name: str = "") -> RemoteError:
        kind = MissingError if isinstance(error, FileNotFoundError) else RemoteError
        return kind(f"{self.url}{name and f': {name}'}: {_reason(error)}")


def _reason(error: Exception) -> str:
    """What the server said, or what became of the connection, without the address and the traces of the package."""
    text = str(error).strip().partition("\n\nDebug source")[0] or type(error).__name__
    said = [found[1] for tag in ("Code", "Message") if (found := re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL))]
    status = re.search(r"status code: (\d+[^:\n]*)", text)
    if status is None:
        asked, reason = re.search(r"performing [A-Z]+ ([^\s?]+)", text), text.splitlines()[0].rpartition(" - ")[2]
        hint = "" if os.environ.get("AWS_ACCESS_KEY_ID") else "; AWS_ACCESS_KEY_ID is not set"
        return f"{asked[1] + ': ' if asked else ''}{reason[-200:]}{hint}"
    hint = "; see AWS_ACCESS_KEY_ID and its rights" if status[1][:3] in ("401", "403") else ""
    return f"{status[1]}{' (' + ': '.join(said) + ')' if said else ''}{hint}"
