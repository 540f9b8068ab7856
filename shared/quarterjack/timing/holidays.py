"""Public holidays by country and subdivision, from the ``holidays`` package (extra ``calendars``)."""

from __future__ import annotations

import difflib
import importlib
import re
import warnings
from datetime import date
from functools import lru_cache
from types import ModuleType
from typing import Any

from quarterjack.errors import ExpressionError
from quarterjack.extras import install_remedy

_NAME = re.compile(r"([A-Z]{2})(?:-([A-Z0-9]{1,4}))?")


class Holidays:
    def __init__(self, calendar: Any) -> None:
        self._calendar = calendar

    def holiday(self, day: date) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of years that it only estimates
            return day in self._calendar

    def name(self, day: date) -> str:
        """The name of the holiday that ``day`` is."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return str(self._calendar.get(day))

    def weekend(self, day: date) -> bool:
        """Whether ``day`` is a weekend there: not everywhere Saturday and Sunday."""
        return bool(self._calendar.is_weekend(day))


@lru_cache(maxsize=256)  # a year of one calendar takes about 0.1 ms to compute and 5 KB
def calendar(name: str) -> Holidays:
    """The calendar called ``DE`` or ``DE-BY``; ``ExpressionError`` (field ``calendar``) if there is none."""
    found = _NAME.fullmatch(name)
    package = extra("holidays", "calendars", "calendar", name)
    known = package.list_supported_countries(include_aliases=True)
    if found is None or found[1] not in known:
        near = ", ".join(difflib.get_close_matches(name[:10].upper(), known, n=3, cutoff=0.4))
        remedy = "give a country, perhaps with a subdivision, such as 'DE' or 'DE-BY'" + (
            f"; near: {near}" if near else ""
        )
        raise ExpressionError("calendar", name, "not a known calendar", remedy)
    if found[2] and found[2] not in known[found[1]]:
        parts = ", ".join(f"{found[1]}-{part}" for part in known[found[1]])
        remedy = f"give one of {parts}" if parts else f"give {found[1]!r}"
        raise ExpressionError("calendar", name, f"{found[1]} has no subdivision {found[2]!r}", remedy)
    # Without a language their names would be in that of the machine.
    return Holidays(package.country_holidays(found[1], subdiv=found[2], language="en_US"))


def extra(package: str, name: str, field: str, value: str) -> ModuleType:
    """The package of one of our extras; ``ExpressionError`` about ``field`` if it is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError:
        problem = f"the package {package.replace('_', '-')} is not installed"
        raise ExpressionError(field, value, problem, install_remedy(name)) from None
