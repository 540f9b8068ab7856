"""The archive's objects in S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from minutehand.aws import Client
from minutehand.concurrency.pools import RequestPool
from minutehand.errors import NotFound


class BucketArchive:
    """The archive in S3; without a bucket it is off. ``connect`` makes the client when it is first needed: most processes need none."""

    def __init__(self, connect: Callable[[], Client], bucket: str | None, *, pool: RequestPool | None = None) -> None:
        self._connect, self._bucket, self._pool = connect, bucket, pool or RequestPool()

    @cached_property
    def _client(self) -> Client:
        return self._connect()

    @property
    def is_on(self) -> bool:
        return self._bucket is not None

    def put(self, objects: Mapping[str, bytes]) -> None:
        def send(key: str) -> tuple[None, int]:
            about = {"ContentType": "application/gzip"}
            self._client.call("put_object", Bucket=self._bucket, Key=key, Body=objects[key], **about)
            return None, 0

        if objects:
            _ = self._client  # made once, before there are threads
            self._pool.map(send, list(objects))

    def keys(self, prefix: str, *, after: str, before: str) -> Iterator[str]:
        more = {"StartAfter": after}
        while self._bucket is not None:
            page = self._client.call("list_objects_v2", Bucket=self._bucket, Prefix=prefix, **more)
            for found in page.get("Contents", ()):
                if found["Key"] >= before:
                    return
                yield found["Key"]
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        def read(key: str) -> tuple[bytes | None, int]:
            try:
                found: bytes = self._client.call("get_object", Bucket=self._bucket, Key=key)["Body"].read()
            except NotFound:
                return None, 0
            return found, 0

        return self._pool.map(read, keys) if keys else []
