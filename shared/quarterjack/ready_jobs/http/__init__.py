"""HTTP jobs: call an endpoint when a run is due; its address is all that has to be written.

>>> from quarterjack import Registry, Retry
>>> from quarterjack.ready_jobs.http import Secret, http_job
>>> jobs = Registry()
>>> _ = http_job(
...     "crm.sync",
...     url="https://crm.example.com/v1/sync",
...     headers={"Authorization": Secret(parameter="/acme/crm-token", form="Bearer {}")},
...     retry=Retry(max_attempts=6),
...     registry=jobs,
... )
>>> jobs.names()
['crm.sync']

A tenant who may give a URL may try to reach addresses that only the worker can reach. ``guard`` checks every address before the
connection is made, and the connection goes to the address that was checked: a host name that resolves differently later has no effect.
"""

from quarterjack.ready_jobs.http.job import http_job
from quarterjack.ready_jobs.http.request import Request
from quarterjack.ready_jobs.http.secrets import Secret
from quarterjack.ready_jobs.http.send import send

__all__ = ["Request", "Secret", "http_job", "send"]
