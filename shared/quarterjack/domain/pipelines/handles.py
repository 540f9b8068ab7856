"""What the block of a pipeline in code gets: its tasks, and references to what is known when they start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn


class Value:
    """A reference to a value that is known when a task starts. In a text it is ``${…}``; compared, it is a Condition."""

    __hash__ = None  # type: ignore[assignment]  # == makes a condition

    def __init__(self, text: str) -> None:
        self.text = text

    def __getitem__(self, key: str | int) -> Value:
        key_text = _source(key).replace("}", r"\u007d")  # a "}" ends a reference
        return Value(f"{self.text}[{key_text}]")

    def __iter__(self) -> NoReturn:  # otherwise Python would ask for its items without an end
        raise TypeError(
            f"{self.text} is known when the task starts; p.map(job, over=…) runs a job for each of its items"
        )

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError(f"{self.text} is known when the task starts; write when={self.text}.contains(…)")

    def __str__(self) -> str:
        return f"${{{self.text}}}"

    def __format__(self, spec: str) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"<Value {self.text}>"

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return self._compared("==", other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return self._compared("!=", other)

    def __lt__(self, other: object) -> Condition:
        return self._compared("<", other)

    def __le__(self, other: object) -> Condition:
        return self._compared("<=", other)

    def __gt__(self, other: object) -> Condition:
        return self._compared(">", other)

    def __ge__(self, other: object) -> Condition:
        return self._compared(">=", other)

    def is_in(self, values: Sequence[Any]) -> Condition:
        """Whether it is one of these."""
        return self._compared("in", list(values))

    def contains(self, value: Any) -> Condition:
        """Whether it is a list, a text or an object that has this in it."""
        return Condition(f"{_source(value)} in {self.text}")

    def __bool__(self) -> bool:
        raise TypeError(f"{self.text} is known when the task starts; write when={self.text} == …")

    def _compared(self, sign: str, other: object) -> Condition:
        return Condition(f"{self.text} {sign} {_source(other)}")


class Condition:
    """What ``when`` asks; ``&``, ``|`` and ``~`` combine conditions."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __and__(self, other: Condition) -> Condition:
        return Condition(f"({self.text}) and ({other.text})")

    def __or__(self, other: Condition) -> Condition:
        return Condition(f"({self.text}) or ({other.text})")

    def __invert__(self) -> Condition:
        return Condition(f"not ({self.text})")

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self.text!r} is known when the task starts; combine conditions with &, | and ~, and write is_in([…]) for in"
        )

    def __repr__(self) -> str:
        return f"<Condition {self.text}>"

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError(f"{self.text!r} is a condition, and no value; give it to when")


def _source(value: Any) -> str:
    """As Python reads it: JSON that names characters beyond 16 bits by two halves would be another text there."""
    return value.text if isinstance(value, Value) else json.dumps(value, ensure_ascii=False)


class TaskHandle:
    """A task that was declared: for ``after``, and for references to its result."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<TaskHandle {self.name}>"

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError(f"{self.name} is a task, and no value; write what it returned: {{{self.name}.result}}")

    @property
    def result(self) -> Value:
        """What its job returned; None if it did not succeed."""
        return Value(f"{self.name}.result")

    @property
    def state(self) -> Value:
        """The state of its run, such as SUCCEEDED, DEAD or SKIPPED."""
        return Value(f"{self.name}.state")


class Fire:
    """The pipeline's run, for references."""

    date = Value("fire.date")  # YYYY-MM-DD in the schedule's zone
    time = Value("fire.time")  # ISO 8601 with the zone's offset
    run_id = Value("fire.run_id")  # of the pipeline's run

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError("a fire is no value; write its date, time or run_id: {p.fire.date}")
