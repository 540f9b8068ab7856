"""An erasure of many runs, killed five times on the way: a full scan of tables and buckets finds nothing but what is certified.

Tables and buckets are read here as they are, past the stores. The seconds, requests and write units are printed.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from quarterjack.domain.names import fire_ref, one_off_ref
from quarterjack.domain.times import HOUR, MINUTE, SECOND, from_ms
from quarterjack.dynamodb.items import to_item
from quarterjack.services import connect
from quarterjack.settings import Settings
from quarterjack.stores.tables import TABLES

from tests.support.builders import NOON, a_definition, a_head, a_revision, an_audit_entry, an_entry
from tests.support.command_line import environment

pytestmark = pytest.mark.cloud

NAMED = re.compile(r"(?<![A-Za-z0-9._-])acme(?![A-Za-z0-9._-])")
SECRET = "aCmEsEcReT"
KILLS = 5
PER_SCHEDULE = 100  # runs
GENTLE = {"QUARTERJACK_REQUESTS": "2"}  # the local cloud reads its whole table for each page of a scan


class Stock:
    """What two tenants have."""

    def __init__(self, settings: Settings) -> None:
        where = {"endpoint_url": settings.endpoint, "region_name": settings.region}
        self.settings = settings
        self.dynamodb: Any = boto3.client("dynamodb", **where)
        self.s3: Any = boto3.client("s3", **where)
        self.services = connect(settings)

    def fill(self, tenant: str, runs: int) -> None:
        """So many runs, with what is beside them, and objects, entries, schedules and audit entries in proportion."""
        text = SECRET if tenant == "acme" else "nothing"
        schedules = max(runs // PER_SCHEDULE, 1)
        for number in range(min(schedules, 50)):
            name = f"s{number}"
            revision = a_revision(tenant=tenant, name=name, definition=a_definition(payload=json.dumps(text)))
            head = a_head(tenant=tenant, name=name, tags={"of": text})
            entry = an_entry(owner=f"{tenant}/{name}", shard=number % 4)
            line = an_audit_entry(f"{tenant}/{name}", reason=text)
            assert self.services.schedules.arm(
                head, expected=0, previous=None, revision=revision, entry=entry, audit=line
            )
        rows = list(self._runs(tenant, runs, schedules, text))
        batches = [rows[start : start + 25] for start in range(0, len(rows), 25)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._put, batches))
        self._objects(tenant, runs, text)

    def _runs(self, tenant: str, runs: int, schedules: int, text: str) -> Iterator[dict[str, Any]]:
        ended: dict[str, Any] = {"state": "SUCCEEDED", "rev": 1, "job": "report", "fence": 1, "attempt": 1}
        for number in range(runs):
            owner = f"{tenant}/s{number % schedules}"
            ref = one_off_ref(tenant, f"{number}") if number % 10 == 0 else fire_ref(owner, NOON + number * SECOND)
            row = ended | {"owner": ref.owner, "key": ref.key, "due": NOON, "not_before": NOON, "result": text}
            yield row
            if number % 20 == 0:
                yield {"owner": ref.owner, "key": f"#{ref.key}#attempt#000001", "error": text, "fence": 1}
            if number % 100 == 0:
                yield {"owner": f"{tenant}#dead#2036-05-01", "key": f"#{NOON:015d}#{ref}", "error": text}

    def _put(self, rows: list[dict[str, Any]]) -> None:
        puts = [{"PutRequest": {"Item": to_item(row)}} for row in rows]
        self.dynamodb.batch_write_item(RequestItems={self.settings.table("runs"): puts})

    def _objects(self, tenant: str, runs: int, text: str) -> None:
        lines = [self._line(tenant, number) for number in range(20)]
        for number in range(min(runs // 100, 200)):
            self.services.payloads.put(tenant, f"{text} {number}")
            content = gzip.compress("\n".join(lines).encode())
            self.services.archive.put({f"archive/tenant={tenant}/day=2036-05-01/{number:04d}.jsonl.gz": content})

    def inbox(self) -> None:
        """Objects with lines of both tenants."""
        for number in range(10):
            lines = [self._line(tenant, number) for tenant in ("acme", "beta")]
            key = f"archive/inbox/{NOON:015d}-{NOON + MINUTE:015d}-b{number}-x.jsonl.gz"
            self.services.archive.put({key: gzip.compress(("\n".join(lines) + "\n").encode())})

    @staticmethod
    def _line(tenant: str, number: int) -> str:
        at = from_ms(NOON + number * HOUR).isoformat().replace("+00:00", ".000Z")
        return json.dumps({"run": f"{tenant}/s#{number}", "tenant": tenant, "at": at, "sequence": f"{number}"})

    # What is there.

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """All rows of all tables, as DynamoDB has them."""
        for table in TABLES:
            more: dict[str, Any] = {}
            while True:
                page = self.dynamodb.scan(TableName=self.settings.table(table.suffix), ConsistentRead=True, **more)
                yield from ((table.suffix, item) for item in page["Items"])
                if "LastEvaluatedKey" not in page:
                    break
                more = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def objects(self) -> Iterator[tuple[str, str]]:
        """All objects of the bucket, by their keys."""
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.settings.bucket):
            for each in page.get("Contents", ()):
                body = self.s3.get_object(Bucket=self.settings.bucket, Key=each["Key"])["Body"].read()
                yield each["Key"], (gzip.decompress(body) if each["Key"].endswith(".gz") else body).decode()

    def others(self) -> list[str]:
        """What there is of the other tenant."""
        rows = [f"{table} {json.dumps(item, sort_keys=True)}" for table, item in self.rows()]
        objects = [f"{key} {text}" for key, text in self.objects() if "inbox" not in key]
        lines = {line for key, text in self.objects() if "inbox" in key for line in text.splitlines() if "beta" in line}
        return sorted(each for each in (*rows, *objects, *lines) if "beta" in each)

    def left(self) -> list[str]:
        """What says anything of the erased tenant beyond what is certified."""
        rows = [f"{table} {json.dumps(item)}" for table, item in self.rows() if not _is_certified(table, item)]
        objects = [f"{key} {text}" for key, text in self.objects() if not key.startswith("erasures/acme/")]
        return [each[:300] for each in (*rows, *objects) if SECRET in each or NAMED.search(each)]


def _is_certified(table: str, item: dict[str, Any]) -> bool:
    if table == "tenants":
        return item["item"]["S"] in ("#profile", "#erasure", "acme") and SECRET not in json.dumps(item)
    if table != "audit":
        return False
    is_digest = set(item) == {"partition", "key", "digest", "erased"}
    place = item["partition"]["S"].startswith(("acme#~", "~days#"))
    return is_digest or place or item.get("act", {}).get("S") == "erase-tenant"


def _erase(settings: Settings, runs: int) -> Counter[str]:
    """Processes until one is through, the first five killed, each when it has removed a further part; what they have cost."""
    command = [sys.executable, "-m", "tests.support.installation.dying_eraser", "acme"]
    cost, wanted = Counter[str](), [runs * (kill + 1) // (KILLS + 2) for kill in range(KILLS)]
    while True:
        told: dict[str, Any] = {"cost": {}}
        with subprocess.Popen(
            command,
            env={**os.environ, **environment(settings), **GENTLE},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for line in process.stdout:
                told = json.loads(line)
                if wanted and told["removed"] >= wanted[0]:
                    process.kill()
                    break
                if not told["ended"]:
                    process.stdin.write("\n")
                    process.stdin.flush()
        cost.update(told["cost"])
        if told.get("ended"):
            assert not wanted
            return cost
        assert wanted, "it died by itself"
        wanted.pop(0)
        cost["killed"] += 1


def _story(settings: Settings, runs: int) -> None:
    stock = Stock(settings)
    stock.fill("acme", runs)
    stock.fill("beta", 500)
    stock.inbox()
    before = stock.others()
    assert len(before) > 500
    began = time.monotonic()
    cost = _erase(settings, runs)
    seconds = time.monotonic() - began
    assert cost["killed"] == KILLS
    assert stock.left() == []
    assert stock.others() == before
    found = stock.services.erasures.read("acme")
    assert found is not None
    told = {str(kind): count for kind, count in found.removed.items()}
    print(f"{runs:,} runs: {seconds:.0f} s, {found.number} passes, {dict(cost)}, {told}")  # noqa: T201 (figures to report)


@pytest.mark.check
def test_two_thousand_runs_killed_five_times(local_settings: Settings) -> None:
    _story(local_settings, 2_000)


@pytest.mark.proof
def test_a_hundred_thousand_runs_killed_five_times(local_settings: Settings) -> None:
    _story(local_settings, 100_000)
