"""SDK methods that explain: why a fire or a run ran, ran late, or did not run."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from quarterjack.domain.names import check_name, parse_run_id
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.times import to_ms
from quarterjack.errors import NotFound, shorten
from quarterjack.sdk.access.masking import masked_attempts, masked_run
from quarterjack.sdk.base import SchedulerBase

if TYPE_CHECKING:
    from quarterjack.why.answer import Answer
    from quarterjack.why.evidence import EvidenceReader
    from quarterjack.why.facts import Facts


class WhyMethods(SchedulerBase):
    def why(self, name: str, at: datetime) -> Answer:
        """Why the fire of a schedule at ``at`` (aware) ran, ran late, did not run, or was none; also of a deleted schedule.

        The answer has a verdict and sentences, each with the row, record or rule that it rests on. What the evidence does not tell is
        said so. A fire in the second that begins at ``at`` is meant, too. Costs about eight reads.
        Raises InvalidInput, NotFound (no schedule ever had this name), Conflict (others change it all the time), Unavailable.
        """
        self._permit_schedule(Verb.READ_HISTORY, name)
        facts = self._evidence.of_fire(check_name(name), to_ms(at, "at"))
        if facts is None:
            raise self._no_schedule(name)
        return self._explained(facts, f"schedule {name!r}")

    def why_run(self, run_id: str) -> Answer:
        """The same for a run: of a fire, a trigger, a backfill, or a one-off.

        Raises InvalidInput, NotFound (there is no such run, or its row has left the ledger), Conflict, Unavailable.
        """
        self._permit_some(Verb.READ_HISTORY, what=f"run {shorten(run_id, 300)}")
        ref = parse_run_id(run_id)
        facts = self._evidence.of_run(ref) if ref.tenant == self.tenant else None
        if facts is None:
            self._permit_seen(Verb.READ_HISTORY, None, f"run {shorten(run_id, 300)}")
            raise NotFound(
                f"run_id={run_id!r}: tenant {self.tenant!r} has no such run, or its retention is over; list_runs() shows those it has"
            )
        return self._explained(facts, f"run {run_id!r}")

    def _explained(self, facts: Facts, what: str) -> Answer:
        """The answer, for a caller who may know of the job that ran, or would have. Raises Forbidden."""
        from quarterjack.why.explain import explain  # noqa: PLC0415 (`import quarterjack` need not take its time)

        job = _job_of(facts)
        self._permit_seen(Verb.READ_HISTORY, job, what)
        if not self._may(Verb.READ_PAYLOADS, job):
            run = None if facts.run is None else masked_run(facts.run)
            facts = replace(facts, run=run, attempts=masked_attempts(facts.attempts))
        return explain(facts)

    @property
    def _evidence(self) -> EvidenceReader:
        from quarterjack.why.evidence import EvidenceReader  # noqa: PLC0415 (`import quarterjack` need not take its time)

        return EvidenceReader(self.tenant, self.session.services, self.session.clock)


def _job_of(facts: Facts) -> str | None:
    """Of the run, else of the revision that was current then."""
    if facts.run is not None:
        return facts.run.job
    if facts.governing is not None:
        return facts.revisions[facts.governing].definition.job
    return None if facts.head is None else facts.head.job
