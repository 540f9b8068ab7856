"""The extra metrics: figures as Prometheus reads them."""

from __future__ import annotations

from quarterjack.signals.instruments import PrometheusFigures
from quarterjack.signals.measurement import counted

figures = PrometheusFigures("worker")
figures.take(counted(Started=3))
assert b'quarterjack_started_total{service="worker"} 3.0' in figures.text(), figures.text()
