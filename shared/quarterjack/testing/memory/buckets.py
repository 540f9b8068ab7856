"""The bucket of payloads and the bucket of the archive, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from quarterjack.domain.audit import ANCHORS
from quarterjack.domain.payload import (
    PayloadOwner,
    folders_of,
    is_object_of,
    owner_of_object,
    payload_key,
    result_key,
    size,
)
from quarterjack.errors import NotFound
from quarterjack.ports.buckets import KeptObjects, Lock, ObjectPage, ObjectVersion, OriginalObject
from quarterjack.ports.services import Clock
from quarterjack.testing.memory.calls import Calls

_PAGE = 100  # versions of one listing: small pages find more interleavings


class MemoryPayloads:
    """The bucket in memory."""

    def __init__(self, calls: Calls, texts: dict[str, tuple[str, int]], clock: Clock) -> None:
        self._calls, self._texts, self._clock = calls, texts, clock

    def put(self, whose: PayloadOwner, text: str) -> str:
        return self._put(payload_key(whose, text), text)

    def keep(self, tenant: str, text: str) -> str:
        return self._put(result_key(tenant, text), text)

    def _put(self, key: str, text: str) -> str:
        stored = (text, self._clock())
        self._calls.one("PutObject", "payloads", "put", lambda: self._texts.update({key: stored}), key)
        return key

    def get(self, tenant: str, key: str) -> str:
        if not is_object_of(key, tenant):
            raise NotFound(f"{key!r} is not an object of tenant {tenant!r}")
        found = self._calls.one("GetObject", "payloads", "get", lambda: self._texts.get(key), key)
        if found is None:
            raise NotFound(f"{key!r}: the bucket has no such object")
        return found[0]

    def stored(self, *, after: str, before: int) -> Iterator[str]:
        there = self._calls.one("ListObjectsV2", "payloads", "stored", lambda: sorted(self._texts.items()))
        return (key for key, (_, at) in there if key > after and at < before and owner_of_object(key) is not None)

    def remove(self, keys: Sequence[str]) -> None:
        self._calls.one(
            "DeleteObjects", "payloads", "remove", lambda: [self._texts.pop(key, None) for key in keys], *keys
        )

    def kept(self, tenant: str, *, after: str | None, since: int) -> KeptObjects:
        there = self._calls.one("ListObjectsV2", "payloads", "kept", lambda: sorted(self._texts.items()), tenant)
        payloads, results = folders_of(tenant)
        found = [
            (key, size(text), at >= since and key.startswith(payloads))
            for key, (text, at) in there
            if key.startswith((payloads, results)) and key > (after or "")
        ]
        page, rest = found[:_PAGE], found[_PAGE:]
        recent = sum(length for _, length, is_recent in page if is_recent)
        return KeptObjects(len(page), sum(length for _, length, _ in page), recent, page[-1][0] if rest else None)


class VersionedObjects(dict[str, bytes]):
    """Objects by their keys. Of the audit's anchors all versions are kept, as a bucket with a lock keeps them; None: a removal."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: dict[str, list[bytes | None]] = {}  # the oldest first
        self.locked: dict[str, int] = {}  # keys that a lock keeps, until when (UTC ms)

    def __setitem__(self, key: str, content: bytes) -> None:
        super().__setitem__(key, content)
        self._note(key, content)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._note(key, None)

    def _note(self, key: str, content: bytes | None) -> None:
        if key.startswith(ANCHORS):
            self.versions.setdefault(key, []).append(content)


class MemoryArchive:
    """The archive's bucket in memory."""

    is_on = True

    def __init__(self, calls: Calls, objects: VersionedObjects) -> None:
        self._calls, self._objects = calls, objects

    def put(self, objects: Mapping[str, bytes]) -> None:
        for key, content in objects.items():
            self._calls.one("PutObject", "archive", "put", partial(self._objects.__setitem__, key, content), key)

    def put_new(self, key: str, content: bytes) -> bool:
        return self._calls.one("PutObject", "archive", "put_new", lambda: self._put_new(key, content), key)

    def _put_new(self, key: str, content: bytes) -> bool:
        if key in self._objects:
            return False
        self._objects[key] = content
        return True

    def keys(self, prefix: str, *, after: str, before: str) -> Iterator[str]:
        there = self._calls.one("ListObjectsV2", "archive", "keys", lambda: sorted(self._objects))
        return (key for key in there if key.startswith(prefix) and after < key < before)

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        return [self._calls.one("GetObject", "archive", "get", partial(self._objects.get, key), key) for key in keys]

    def originals(self, prefix: str) -> Iterator[OriginalObject]:
        found = self._calls.one(
            "ListObjectVersions", "archive", "originals", lambda: sorted(self._objects.versions.items())
        )
        return (
            OriginalObject(key=key, content=versions[0], changes=len(versions) - 1)
            for key, versions in found
            if key.startswith(prefix)
        )

    def remove(self, keys: Sequence[str]) -> None:
        self._calls.one("DeleteObjects", "archive", "remove", lambda: self._remove(keys))

    def _remove(self, keys: Sequence[str]) -> None:
        for key in keys:
            if key in self._objects:
                del self._objects[key]


class MemoryVersions:
    """The versions of the objects in both buckets. Only the audit's anchors, which nobody erases, have more than one."""

    def __init__(
        self, calls: Calls, texts: dict[str, tuple[str, int]], archived: VersionedObjects, clock: Clock
    ) -> None:
        self._calls, self._texts, self._archived, self._clock = calls, texts, archived, clock

    def page(self, prefix: str, cursor: str) -> ObjectPage:
        found = self._calls.one("ListObjectVersions", "objects", "page", lambda: self._keys(prefix, cursor), prefix)
        versions = [ObjectVersion(key=key, version="null") for key in found]
        return ObjectPage(versions=versions, cursor=found[-1] if len(found) == _PAGE else None)

    def _keys(self, prefix: str, cursor: str) -> list[str]:
        keys = sorted(key for key in (*self._texts, *self._archived) if key.startswith(prefix) and key > cursor)
        return keys[:_PAGE]

    def read(self, each: ObjectVersion) -> bytes | None:
        return self._calls.one("GetObject", "objects", "read", lambda: self._archived.get(each.key), each.key)

    def remove(self, versions: Sequence[ObjectVersion]) -> Sequence[Lock]:
        for start in range(0, len(versions), _PAGE):
            part = versions[start : start + _PAGE]
            self._calls.one("DeleteObjects", "objects", "remove", partial(self._remove, part))
        ends = ((each, self._archived.locked.get(each.key, 0)) for each in versions)
        return [Lock(object=each, until=until) for each, until in ends if until > self._clock()]

    def _remove(self, versions: Sequence[ObjectVersion]) -> None:
        for each in versions:
            if self._archived.locked.get(each.key, 0) <= self._clock():
                self._texts.pop(each.key, None)
                if each.key in self._archived:
                    del self._archived[each.key]
