"""The archive's objects in S3. The inbox may be in another bucket: a locked one would keep what is moved out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from minutehand.aws import Client, ConditionFailed
from minutehand.concurrency.pools import RequestPool
from minutehand.domain.history.archive_keys import INBOX
from minutehand.dynamodb.payloads import remove_objects
from minutehand.errors import NotFound


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
        def read(key: str) -> tuple[bytes | None, int]:
            try:
                found: bytes = self._client.call("get_object", Bucket=self._bucket_of(key), Key=key)["Body"].read()
            except NotFound:
                return None, 0
            return found, 0

        return self._pool.map(read, keys) if keys else []

    def remove(self, keys: Sequence[str]) -> None:
        for bucket in {self._bucket_of(key) for key in keys}:
            remove_objects(self._client, bucket, [key for key in keys if self._bucket_of(key) == bucket])
