"""The extra metrics: figures as Prometheus reads them."""

from __future__ import annotations

from quarterjack.signals.catalogue import counted
from quarterjack.signals.sinks import PrometheusFigures

figures = PrometheusFigures("worker")
figures.take(counted(Started=3))
assert b'quarterjack_started_total{service="worker"} 3.0' in figures.text(), figures.text()
