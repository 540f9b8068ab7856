"""Large payloads and results in S3."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from quarterjack.aws import Client
from quarterjack.concurrency.forks import HoldsLocks
from quarterjack.domain.payload import (
    PAYLOADS,
    PayloadOwner,
    folders_of,
    is_object_of,
    owner_of_object,
    payload_key,
    result_key,
)
from quarterjack.domain.times import SECOND
from quarterjack.errors import InvalidInput, NotFound, Unavailable
from quarterjack.ports.buckets import KeptObjects

_MOST = 1_000  # objects of one request that removes them


class BucketPayloads(HoldsLocks):
    """Payloads in S3. Without a bucket every large payload is refused.

    ``connect`` makes the client when it is first needed: most processes never see a large payload.
    """

    def __init__(self, connect: Callable[[], Client], bucket: str | None) -> None:
        self._connect, self._bucket = connect, bucket
        self._made: Client | None = None
        super().__init__()

    def _make_locks(self) -> None:
        self._lock = threading.Lock()

    @property
    def _client(self) -> Client:
        with self._lock:
            if self._made is None:
                self._made = self._connect()
            return self._made

    def put(self, whose: PayloadOwner, text: str) -> str:
        return self._put(payload_key(whose, text), "payload", text)

    def keep(self, tenant: str, text: str) -> str:
        return self._put(result_key(tenant, text), "result or checkpoint", text)

    def _put(self, key: str, what: str, text: str) -> str:
        body = text.encode()
        if self._bucket is None:
            raise InvalidInput(what, text, f"has {len(body):,} bytes and there is no bucket", "set QUARTERJACK_BUCKET")
        self._client.call("put_object", Bucket=self._bucket, Key=key, Body=body, ContentType="application/json")
        return key

    def get(self, tenant: str, key: str) -> str:
        if not is_object_of(key, tenant):
            raise NotFound(f"{key!r} is not an object of tenant {tenant!r}")
        answer = self._client.call("get_object", Bucket=self._bucket, Key=key)
        body: bytes = answer["Body"].read()
        return body.decode()

    def stored(self, *, after: str, before: int) -> Iterator[str]:
        more = {"StartAfter": after} if after else {}
        while self._bucket is not None:
            page = self._client.call("list_objects_v2", Bucket=self._bucket, Prefix=f"{PAYLOADS}/", **more)
            for found in page.get("Contents", ()):
                if owner_of_object(found["Key"]) and found["LastModified"].timestamp() * SECOND < before:
                    yield found["Key"]
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def remove(self, keys: Sequence[str]) -> None:
        remove_objects(self._client, self._bucket, keys)

    def kept(self, tenant: str, *, after: str | None, since: int) -> KeptObjects:
        payloads, results = folders_of(tenant)
        folder = payloads if after is None or after.startswith(payloads) else results
        more = {} if after in (None, folder) else {"StartAfter": after}
        page = self._client.call("list_objects_v2", Bucket=self._bucket, Prefix=folder, **more)
        found = page.get("Contents", ())
        cursor = found[-1]["Key"] if page.get("IsTruncated") else results if folder == payloads else None
        recent = [one for one in found if folder == payloads and one["LastModified"].timestamp() * SECOND >= since]
        whole, new = (sum(int(one["Size"]) for one in some) for some in (found, recent))
        return KeptObjects(len(found), whole, new, cursor)


def remove_objects(client: Client, bucket: str | None, keys: Sequence[str]) -> None:
    """Remove objects from a bucket. Raises Unavailable."""
    for start in range(0, len(keys), _MOST):
        named = {"Objects": [{"Key": key} for key in keys[start : start + _MOST]], "Quiet": True}
        left = client.call("delete_objects", Bucket=bucket, Delete=named).get("Errors", ())
        if left:
            raise Unavailable(
                f"{len(left)} objects were not removed, the first {left[0]['Key']}: {left[0].get('Code')}"
            )
