"""The inputs of the capacity model, each with its unit and source. The simulation of ``bench/modelled`` takes them, too."""

from __future__ import annotations

from quarterjack.values import value

_FACTS = "the project's facts, November 2026"


@value(slots=True)
class Figure:
    """An input of the model."""

    what: str
    value: float
    unit: str
    source: str


PARTITION_WRITES = Figure(
    "DynamoDB, writes of one partition; an agenda shard is one key and never more than one",
    1_000,
    "units/s",
    f"{_FACTS}; DynamoDB developer guide, warm throughput scenarios",
)
NEW_TABLE_WRITES = Figure("DynamoDB, a new on-demand table, each", 4_000, "units/s", _FACTS)
STANDARD_START = Figure("Lambda on SQS, standard: batches at once at first", 5, "batches", _FACTS)
STANDARD_RAMP = Figure(
    "Lambda on SQS, standard: further ones while messages wait", 300, "a minute", f"{_FACTS}; Lambda developer guide"
)
STANDARD_MOST = Figure(
    "Lambda on SQS, standard: most of one queue", 1_250, "batches", "Lambda developer guide, SQS scaling"
)
POLLER_BATCHES = Figure(
    "Lambda on SQS, provisioned: batches at once of a poller",
    10,
    "batches",
    "AWS News Blog: 20,000 batches of 2,000 pollers",
)
POLLER_CALLS = Figure("Lambda on SQS, provisioned: receives of a poller", 10, "a second", _FACTS)
COLD_START = Figure(
    "a worker's cold start at 512 MB",
    1_000,
    "ms",
    "217 ms of CPU measured on a loaded machine (bench memory), at 0.29 of a core: 512 of 1,769 MB; 250 for the rest are a guess",
)
DATABASE_CALL = Figure(
    "DynamoDB, a batched call, on average", 8, "ms", "an assumption: AWS promises single-digit milliseconds"
)
QUEUE_CALL = Figure("SQS, a batched send or deletion, on average", 10, "ms", "an assumption")
WORK_CPU = Figure(
    "the worker's processor at 512 MB, a run",
    674,
    "µs",
    "bench work: 135 µs on a loaded machine, and 60 for two log lines, TLS and sockets; at 0.29 of a core",
)
JOB = Figure("a job takes; those of a batch side by side", 50, "ms", "a choice: set it to yours")
PROCESS_RUN = Figure(
    "a worker process, time of a slot for a run beside the job",
    32,
    "ms",
    "bench waiting: 311 runs a second with 10 slots",
)
PROCESS_MOST = Figure("a worker process, most runs", 974, "a second", "bench waiting, 100 slots")
DEFAULT_FUNCTIONS = Figure(
    "functions of the default queue at once, as the stack makes it", 500, "functions", "infra/roles/worker.py"
)
DECLARED_FUNCTIONS = Figure(
    "functions of a declared queue at once, without `concurrency`", 100, "functions", "infra/roles/worker.py"
)
RUN_WRITES = Figure("the table of runs, writes of a start: lease and settlement", 2, "units", "bench cost counts them")
CLAIM_WRITES = Figure("the table of runs, writes of a claim", 1, "units", "bench cost counts them")
STEP_WRITES = Figure("an agenda shard, writes of a schedule's step", 2, "units", "bench cost counts them")
SHARDS = Figure("shards of the agenda by default", 16, "shards", "settings.py: DEFAULT_SHARDS")
TICKER_WRITES = Figure(
    "writes of a tick's claims, as the stack sets them", 2_000, "units/s", "settings.py: DEFAULT_TICKER_WRITES"
)
AHEAD = Figure(
    "fires are claimed before their time, at least", 61, "s", "fires/context.py: looked ahead 180, and ticks 119 apart"
)
CHANGES = Figure("the stream of runs, changes of a run: claim, lease, end", 3, "changes", "bench historian")
CHANGE_CPU = Figure("the historian's processor, a change in a large batch", 0.2, "ms", "bench historian: 0.2 to 0.8")
HISTORIAN_CORE = Figure("the historian's share of a core at 512 MB", 0.29, "cores", "512 of 1,769 MB")
CAP_BATCH_WRITES = Figure("the record of a cap, writes of a batch", 2, "units", "ADR 0063; bench caps")
CAP_CHANGE = Figure(
    "the record of a cap, between two changes: half of a read, half of a conditional write",
    8,
    "ms",
    "two calls of DynamoDB at 8 ms",
)
AUDIT_PASS = Figure(
    "the auditor, runs a second whose ledger of 90 days it passes through in six weeks",
    10_000,
    "runs/s",
    "docs/how-to/size.md",
)
INPUTS = tuple(each for each in list(globals().values()) if isinstance(each, Figure))
