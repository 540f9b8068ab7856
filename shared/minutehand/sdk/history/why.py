"""SDK methods that explain: why a fire or a run ran, ran late, or did not run."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from minutehand.domain.names import check_name, parse_run_id
from minutehand.domain.times import to_ms
from minutehand.errors import NotFound
from minutehand.sdk.base import SchedulerBase

if TYPE_CHECKING:
    from minutehand.why.answer import Answer
    from minutehand.why.evidence import EvidenceReader
    from minutehand.why.facts import Facts


class WhyMethods(SchedulerBase):
    def why(self, name: str, at: datetime) -> Answer:
        """Why the fire of a schedule at ``at`` (aware) ran, ran late, did not run, or was none; also of a deleted schedule.

        The answer has a verdict and sentences, each with the row, record or rule that it rests on. What the evidence does not tell is
        said so. A fire in the second that begins at ``at`` is meant, too. Costs about eight reads.
        Raises InvalidInput, NotFound (no schedule ever had this name), Conflict (others change it all the time), Unavailable.
        """
        facts = self._evidence.of_fire(check_name(name), to_ms(at, "at"))
        if facts is None:
            raise self._no_schedule(name)
        return _explained(facts)

    def why_run(self, run_id: str) -> Answer:
        """The same for a run: of a fire, a trigger, a backfill, or a one-off.

        Raises InvalidInput, NotFound (there is no such run, or its row has left the ledger), Conflict, Unavailable.
        """
        ref = parse_run_id(run_id)
        facts = self._evidence.of_run(ref) if ref.tenant == self.tenant else None
        if facts is None:
            raise NotFound(f"run_id={run_id!r}: tenant {self.tenant!r} has no such run, or its retention is over")
        return _explained(facts)

    @property
    def _evidence(self) -> EvidenceReader:
        from minutehand.why.evidence import EvidenceReader  # noqa: PLC0415 (`import minutehand` need not take its time)

        return EvidenceReader(self.tenant, self._services, self._clock)


def _explained(facts: Facts) -> Answer:
    from minutehand.why.explain import explain  # noqa: PLC0415 (as above)

    return explain(facts)
