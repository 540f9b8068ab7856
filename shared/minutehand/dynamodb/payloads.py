"""Large payloads and results in S3. Keys are made from the content, so that a payload is stored once for each tenant."""

from __future__ import annotations

import threading
from collections.abc import Callable

from minutehand.aws import Client
from minutehand.domain.payload import object_key
from minutehand.errors import InvalidInput

PAYLOADS = "payloads"  # written by submitters; workers may read them
RESULTS = "results"  # results and checkpoints, written by workers; they expire with the ledger


class BucketPayloads:
    """Payloads in S3. Without a bucket every large payload is refused.

    ``connect`` makes the client when it is first needed: most processes never see a large payload.
    """

    def __init__(self, connect: Callable[[], Client], bucket: str | None) -> None:
        self._connect, self._bucket = connect, bucket
        self._made: Client | None = None
        self._lock = threading.Lock()

    @property
    def _client(self) -> Client:
        with self._lock:
            if self._made is None:
                self._made = self._connect()
            return self._made

    def put(self, tenant: str, text: str) -> str:
        return self._put(PAYLOADS, "payload", tenant, text)

    def keep(self, tenant: str, text: str) -> str:
        return self._put(RESULTS, "result or checkpoint", tenant, text)

    def _put(self, prefix: str, what: str, tenant: str, text: str) -> str:
        body = text.encode()
        if self._bucket is None:
            raise InvalidInput(what, text, f"has {len(body):,} bytes and there is no bucket", "set MINUTEHAND_BUCKET")
        key = object_key(prefix, tenant, text)
        self._client.call("put_object", Bucket=self._bucket, Key=key, Body=body, ContentType="application/json")
        return key

    def get(self, key: str) -> str:
        answer = self._client.call("get_object", Bucket=self._bucket, Key=key)
        body: bytes = answer["Body"].read()
        return body.decode()
