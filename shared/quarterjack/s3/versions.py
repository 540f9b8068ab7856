"""All versions of the objects of the bucket and of the archive's bucket, in S3."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from quarterjack.aws import Client
from quarterjack.concurrency.pools import RequestPool
from quarterjack.domain.history.archive_objects import ARCHIVE, INBOX
from quarterjack.domain.times import SECOND
from quarterjack.errors import Misconfigured, NotFound, Unavailable
from quarterjack.ports.buckets import Lock, ObjectPage, ObjectVersion

_MOST = 1_000  # objects of one request
_DENIED = "AccessDenied"  # what S3 says of a locked version, and to who may not remove any


class BucketVersions:
    """The versions in two buckets, which may be one; ``connect`` makes the client when it is first needed."""

    def __init__(
        self,
        connect: Callable[[], Client],
        bucket: str | None,
        archive: str | None,
        *,
        pool: RequestPool | None = None,
    ) -> None:
        self._connect, self._bucket, self._archive = connect, bucket, archive or bucket
        self._pool = pool or RequestPool()

    @cached_property
    def _client(self) -> Client:
        return self._connect()

    def _bucket_of(self, key: str) -> str | None:
        is_archived = key.startswith(f"{ARCHIVE}/") and not key.startswith(INBOX)
        return self._archive if is_archived else (self._bucket or self._archive)

    def page(self, prefix: str, cursor: str) -> ObjectPage:
        bucket = self._bucket_of(prefix)
        if bucket is None:
            return ObjectPage(versions=(), cursor=None)
        after = json.loads(cursor) if cursor else {}
        found = self._client.call("list_object_versions", Bucket=bucket, Prefix=prefix, MaxKeys=_MOST, **after)
        versions = [
            ObjectVersion(
                key=each["Key"],
                version=each["VersionId"],
                is_latest=bool(each.get("IsLatest", True)),
                is_marker=kind == "DeleteMarkers",
            )
            for kind in ("Versions", "DeleteMarkers")
            for each in found.get(kind, ())
        ]
        following = {name: found.get(f"Next{name}") for name in ("KeyMarker", "VersionIdMarker")}
        more = json.dumps({name: value for name, value in following.items() if value}, sort_keys=True)
        return ObjectPage(versions=versions, cursor=more if found.get("IsTruncated") else None)

    def read(self, each: ObjectVersion) -> bytes | None:
        try:
            answer = self._client.call("get_object", **self._named(each))
        except NotFound:
            return None
        content: bytes = answer["Body"].read()
        return content

    def remove(self, versions: Sequence[ObjectVersion]) -> Sequence[Lock]:
        refused = list[ObjectVersion]()
        for start in range(0, len(versions), _MOST):
            refused += self._remove(versions[start : start + _MOST])
        return self._pool.map(lambda each: (self._lock_of(each), 0), refused) if refused else ()

    def _remove(self, part: Sequence[ObjectVersion]) -> list[ObjectVersion]:
        """The versions of one folder that were refused."""
        objects = [{"Key": each.key, "VersionId": each.version} for each in part]
        answer = self._client.call(
            "delete_objects", Bucket=self._bucket_of(part[0].key), Delete={"Objects": objects, "Quiet": True}
        )
        errors = {(error["Key"], error.get("VersionId")): error for error in answer.get("Errors", ())}
        failed = [error for error in errors.values() if error.get("Code") != _DENIED]
        if failed:
            text = f"{failed[0]['Key']}: {failed[0].get('Code')}"
            raise Unavailable(f"{len(failed)} objects were not removed, the first {text}; call again")
        return [each for each in part if (each.key, each.version) in errors]

    def _lock_of(self, each: ObjectVersion) -> Lock:
        """The lock that keeps a version. Raises Misconfigured if it has none: then this role may not remove it."""
        found = self._client.call("head_object", **self._named(each))
        until: datetime | None = found.get("ObjectLockRetainUntilDate")
        if until is None and found.get("ObjectLockLegalHoldStatus") != "ON":
            raise Misconfigured(
                f"{each.key}: AccessDenied: no lock keeps it; grant the caller s3:DeleteObject and s3:DeleteObjectVersion "
                "(grant_erasing() of the construct gives them)"
            )
        return Lock(object=each, until=None if until is None else int(until.timestamp() * SECOND))

    def _named(self, each: ObjectVersion) -> dict[str, Any]:
        return {"Bucket": self._bucket_of(each.key), "Key": each.key, "VersionId": each.version}
