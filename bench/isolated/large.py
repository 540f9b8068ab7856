"""A job whose module imports what many do: AWS's SDK, an HTTP client, a database."""

from __future__ import annotations

import sqlite3
import urllib.request

import boto3
from quarterjack import Context, Registry

registry = Registry()
IMPORTED = (boto3, sqlite3, urllib.request)


@registry.job("isolated.large", isolation="process")
def large(ctx: Context, payload: object) -> None:
    """Do nothing."""
