"""A thousand inputs that nobody should send: hand-made, and fuzzed from a fixed seed."""

from __future__ import annotations

import random
from typing import Any

GOOD = (
    "* * * * *",
    "*/10 * * * * *",
    "30 2 29 2 *",
    "0 0 13 * 5",
    "0 9 LW,15W * 5#3,5L",
    "H H(0-5) * * *",
    "@daily",
    "cron(0 12 ? * 2-6 2026-2030)",
    "rate(5 minutes, from=2026-01-01T00:00:00Z)",
    "at(2026-12-24T18:00:00)",
    "DTSTART:20260101T090000\nRRULE:FREQ=MONTHLY;BYDAY=MO,-1FR;BYSETPOS=1,-1;INTERVAL=3;COUNT=20",
    "DTSTART;TZID=America/New_York:20260101T090000 RRULE:FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO EXDATE:20260511T090000",
)
EXPRESSIONS = (
    # much to read
    "," * 512,
    "1" * 512,
    "* " * 256,
    "*/1," * 120 + "* * * * *",
    "1,2-59/3," * 50 + "5 * * * *",
    "H(0-59)/1," * 45 + "H * * * *",
    "1W," * 100 + "1W * * * *",
    "0 0 " + "1W," * 150 + "2W * *",
    "0 0 * * " + "1#1," * 100 + "5L",
    "(" * 512,
    "rate(" * 100,
    "rate(" + "9" * 500 + " days)",
    "at(" + "9" * 500 + ")",
    "cron(" * 100,
    "cron(0 0 1 1 ? " + "1970/1," * 60 + "2199)",
    "\x00" * 5,
    "\ud800 * * * *",
    "０ ０ * * *",
    "* * * * *\n" * 40,
    "=" * 400,
    # never, or hardly ever
    "0 0 30 2 *",
    "0 0 31 2,4,6,9,11 *",
    "0 0 29 2 */7",
    "0 0 30W 2 *",
    "0 0 L-30 2 *",
    "0 0 */31 */12 1#5",
    "59 59 23 L-30 12 5#5",
    "cron(0 0 29 2 ? 2199)",
    "cron(0 0 29 2 ? 2100)",
    "cron(59 23 31 12 ? 2199)",
    "cron(0 0 ? 2 6#5 2097-2199)",
    # recurrence rules that make others spin
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=5;BYMINUTE=5;BYSECOND=5",
    "FREQ=SECONDLY;BYHOUR=5;BYSETPOS=2",
    "FREQ=SECONDLY;INTERVAL=9973;BYHOUR=0;BYMINUTE=0;BYSECOND=0;BYMONTHDAY=31;BYDAY=MO",
    "FREQ=MINUTELY;INTERVAL=1439;BYHOUR=3;BYMINUTE=0;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=HOURLY;INTERVAL=24;BYHOUR=5;BYMONTHDAY=31",
    "FREQ=DAILY;INTERVAL=7;BYDAY=TU",
    "FREQ=DAILY;INTERVAL=36600;BYMONTHDAY=31",
    "FREQ=DAILY;INTERVAL=0",
    "FREQ=DAILY;COUNT=999999999",
    "FREQ=DAILY;INTERVAL=999999999999999999999999",
    "FREQ=DAILY;BYHOUR=1;BYSETPOS=366",
    "FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=" + ",".join(map(str, range(24))) + ";BYMINUTE="
    + ",".join(map(str, range(60))) + ";BYSECOND=" + ",".join(map(str, range(60))) + ";BYSETPOS=-1",
    "FREQ=YEARLY;BYWEEKNO=" + ",".join(map(str, range(-53, 0))) + ";BYYEARDAY=" + ",".join(map(str, range(-366, 0))),
    "DTSTART:00010101T000000 RRULE:FREQ=SECONDLY;COUNT=1000",
    "DTSTART:00010101T000000 RRULE:FREQ=SECONDLY;UNTIL=20260101T000000Z",
    "DTSTART:18000101T000000 RRULE:FREQ=SECONDLY;INTERVAL=7;BYMONTH=2;BYMONTHDAY=29;BYDAY=SA;BYHOUR=3;COUNT=1000",
    "DTSTART:20260101T000000 RRULE:FREQ=DAILY EXDATE:" + ",".join(f"202601{day:02}T000000" for day in range(1, 31)),
    "DTSTART:20260101T000000 RDATE:" + ",".join(f"2026{month:02}01T000000" for month in range(1, 13)),
    " ".join(f"RRULE:FREQ=SECONDLY;INTERVAL=8{n:03}1;BYHOUR=5;BYMINUTE=7" for n in range(38)),
)  # fmt: skip
POLICIES: tuple[dict[str, Any], ...] = (
    {"exclude": ["* * * * *"]},
    {"exclude": ["*/2 * * * * *", "1-59/2 * * * * *"]},
    {"exclude": [f"{n}-{n + 2} * * * *" for n in range(0, 60, 3)]},
    {"exclude": ["0-58 * * * * *", "59 0-58 * * * *", "59 59 0-22 * * *"]},
    {"exclude": [f"{year}-01-01/{year}-12-30" for year in range(2026, 2225)]},
    {"exclude": [f"{year}-05-01/{year}-07-31" for year in range(2026, 2225)], "on_excluded": "next_business_day"},
    {"exclude": ["* * * 1-11 *"], "on_excluded": "previous_business_day"},
    {"exclude": ["* 1 * * *", "* 2-23 * * *"], "on_excluded": "next_business_day"},
    {"exclude": [f"* * {n + 1} * *" for n in range(20)] , "on_excluded": "next_business_day"},
    {"calendar": "DE", "exclude": ["weekends", "* * * 2-12 *"]},
    {"calendar": "JP", "on_excluded": "previous_business_day"},
    {"calendar": "🎄" * 100},
    {"timezone": "Europe/" * 1000},
    {"timezone": "x" * 100_000},
    {"timezone": "America/Argentina/Buenos_Airs"},
    {"window": 86_400},
    {"jitter": 86_400, "seed": "s"},
    {"max_fires": 1000},
    {"max_fires": 1000, "window": 86_400},
    {"also": ["* * * * * *"] * 19},
    {"also": ["0 0 29 2 *"] * 19, "exclude": ["* * 29 2 *"]},
    {"also": ["FREQ=SECONDLY;INTERVAL=7;BYHOUR=3"] * 19},
)  # fmt: skip
ALPHABET = "0123456789*/,-?LW#H()@ abcMONJAN:;=TZ.\n\x00é"


def hostile(count: int = 1000, seed: int = 5) -> list[tuple[str, dict[str, Any]]]:
    """Expressions with policies."""
    rng = random.Random(seed)
    made: list[tuple[str, dict[str, Any]]] = [(expression, {}) for expression in EXPRESSIONS]
    made += [
        (expression, policy)
        for policy in POLICIES
        for expression in ("* * * * * *", "0 9 * * *", "0 0 1 1 *", "rate(1 second)")
    ]
    while len(made) < count:
        expression, policy = rng.choice((*GOOD, *EXPRESSIONS)), rng.choice(({}, {}, *POLICIES))
        made.append((_mutated(expression, rng), policy))
    return made


def _mutated(text: str, rng: random.Random) -> str:
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(5):
            case 0:
                text = text[:at] + rng.choice(ALPHABET) + text[at:]
            case 1:
                text = text[:at] + text[at + 1 :]
            case 2:
                text = text[:at] + rng.choice(ALPHABET) + text[at + 1 :]
            case 3:
                text = text[:at] + text[max(0, at - rng.randrange(9)) :]
            case 4:
                text = text[:at] + str(rng.choice((0, 7, 31, 60, 99, 366, 10**6))) + text[at:]
    return text
