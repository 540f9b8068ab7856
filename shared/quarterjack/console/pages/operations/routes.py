"""Addresses of the pages about the installation at work, below the tenant's."""

from __future__ import annotations

from starlette.routing import Route

from quarterjack.console.calls import page
from quarterjack.console.pages.operations import audit, doctor, freeze, jobs, queues, workers

ROUTES = (
    Route("/queues", page(queues.show)),
    Route("/workers", page(workers.show)),
    Route("/jobs", page(jobs.show)),
    Route("/job/{job}", page(jobs.show_one)),
    Route("/job/{job}/submit", page(jobs.submit_form), methods=["GET"]),
    Route("/job/{job}/submit", page(jobs.submit), methods=["POST"]),
    Route("/freeze", page(freeze.show), methods=["GET"]),
    Route("/freeze", page(freeze.act), methods=["POST"]),
    Route("/audit", page(audit.show)),
    Route("/audit/verify", page(audit.verify)),
    Route("/doctor", page(doctor.show), methods=["GET"]),
    Route("/doctor", page(doctor.begin), methods=["POST"]),
)
