"""HTTP jobs: call an endpoint when a run is due, with nothing to write but its address.

>>> from minutehand import Registry, Retry
>>> from minutehand.http import Secret, http_job
>>> jobs = Registry()
>>> _ = http_job(
...     "crm.sync",
...     url="https://crm.example.com/v1/sync",
...     headers={"Authorization": Secret(env="CRM_TOKEN", form="Bearer {}")},
...     retry=Retry(max_attempts=6),
...     registry=jobs,
... )
>>> jobs.names()
['crm.sync']

Whoever may give a URL may try to reach what only the worker can: ``guard`` looks at every address before it is connected to, and
the connection goes to that very address, so that a name which answers otherwise a moment later gains nothing.
"""

from minutehand.http.job import http_job
from minutehand.http.request import Request
from minutehand.http.secret import Secret
from minutehand.http.send import send

__all__ = ["Request", "Secret", "http_job", "send"]
