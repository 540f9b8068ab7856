"""Stands for the shop's database and mailer."""

from __future__ import annotations

from typing import Any

orders: dict[str, dict[str, Any]] = {}
stock: dict[int, int] = {}
mails: dict[str, str] = {}  # by key: a mailer that knows idempotency keys sends each once


def mail(to: str, text: str, *, key: str) -> None:
    mails.setdefault(key, f"{to}: {text}")


def count(row: int) -> int:
    return row % 7
