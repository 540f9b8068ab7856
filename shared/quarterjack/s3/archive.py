"""The archive's objects in S3. The inbox may be in another bucket: a locked one would keep what is moved out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from quarterjack.aws import Client, ConditionFailed
from quarterjack.concurrency.pools import RequestPool
from quarterjack.domain.history.archive_objects import INBOX
from quarterjack.errors import NotFound
from quarterjack.ports.buckets import OriginalObject
from quarterjack.s3.payloads import remove_objects


class BucketArchive:
    """The archive in S3; without a bucket it is off. ``connect`` makes the client when it is first needed: most processes need none.

    ``inbox`` is the bucket of the inbox, ``bucket`` that of the rest; one of them stands for both.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        bucket: str | None,
        *,
        inbox: str | None = None,
        pool: RequestPool | None = None,
    ) -> None:
        self._connect, self._pool = connect, pool or RequestPool()
        self._bucket, self._inbox = bucket or inbox, inbox or bucket

    @cached_property
    def _client(self) -> Client:
        return self._connect()

    @property
    def is_on(self) -> bool:
        return self._bucket is not None

    def _bucket_of(self, key: str) -> str | None:
        return self._inbox if key.startswith(INBOX) else self._bucket

    def put(self, objects: Mapping[str, bytes]) -> None:
        def send(key: str) -> tuple[None, int]:
            about = {"Bucket": self._bucket_of(key), "Key": key, "ContentType": "application/gzip"}
            self._client.call("put_object", Body=objects[key], **about)
            return None, 0

        if objects:
            _ = self._client  # made once, before there are threads
            self._pool.map(send, list(objects))

    def put_new(self, key: str, content: bytes) -> bool:
        about = {"Bucket": self._bucket_of(key), "Key": key, "ContentType": "application/gzip"}
        try:
            self._client.call("put_object", Body=content, IfNoneMatch="*", **about)
        except ConditionFailed:
            return False
        return True

    def keys(self, prefix: str, *, after: str, before: str) -> Iterator[str]:
        bucket, more = self._bucket_of(prefix), {"StartAfter": after}
        while bucket is not None:
            page = self._client.call("list_objects_v2", Bucket=bucket, Prefix=prefix, **more)
            for found in page.get("Contents", ()):
                if found["Key"] >= before:
                    return
                yield found["Key"]
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        return self._pool.map(lambda key: (self._read(key), 0), keys) if keys else []

    def _read(self, key: str, **version: str) -> bytes | None:
        try:
            answer = self._client.call("get_object", Bucket=self._bucket_of(key), Key=key, **version)
        except NotFound:
            return None
        found: bytes = answer["Body"].read()
        return found

    def originals(self, prefix: str) -> Iterator[OriginalObject]:
        oldest: dict[str, str] = {}  # versions by keys: those of a key are listed the latest first
        listed = Counter[str]()
        for page in self._versions(prefix):
            for version in page.get("Versions", ()):
                oldest[version["Key"]] = version["VersionId"]
            listed.update(each["Key"] for kind in ("Versions", "DeleteMarkers") for each in page.get(kind, ()))

        def read(key: str) -> tuple[OriginalObject, int]:
            content = self._read(key, VersionId=oldest[key])  # "null" in a bucket without versions
            return OriginalObject(key=key, content=content, changes=listed[key] - 1), 0

        yield from self._pool.map(read, sorted(oldest)) if oldest else ()

    def _versions(self, prefix: str) -> Iterator[Mapping[str, Any]]:
        more: dict[str, str] = {}
        while True:
            page = self._client.call("list_object_versions", Bucket=self._bucket_of(prefix), Prefix=prefix, **more)
            yield page
            if not page.get("IsTruncated"):
                return
            more = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}

    def remove(self, keys: Sequence[str]) -> None:
        for bucket in {self._bucket_of(key) for key in keys}:
            remove_objects(self._client, bucket, [key for key in keys if self._bucket_of(key) == bucket])
