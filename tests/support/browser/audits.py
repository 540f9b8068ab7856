"""What axe-core and Lighthouse say about a page."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.browser.installed import ARGUMENTS, CHROMIUM, MODULES, NODE, environment, sandboxed

if TYPE_CHECKING:
    from playwright.sync_api import Page

CATEGORIES = ("accessibility", "performance", "best-practices")
TIMEOUT = 180.0  # seconds; 10 are usual

DOUBTFUL = frozenset({"link-in-text-block"})  # rules of which "for people to decide" counts as a violation
RUN_AXE = """() => Promise.race([
    axe.run(document, {resultTypes: ['violations', 'incomplete']}),
    new Promise((_, refuse) => setTimeout(() => refuse(new Error('axe-core has not answered within 60 s')), 60000)),
])"""
# Where scripts are off no timer ever fires, and axe-core waits for some of a few milliseconds; and it takes what is in a
# <noscript> for hidden, so that is put before it meanwhile.
RUN_AXE_WITHOUT_SCRIPTS = """async () => {
    window.setTimeout = (act, delay = 0) => { if (delay < 1000) Promise.resolve().then(act); return 0; };
    const moved = [...document.body.querySelectorAll('noscript')].map(from => [from, [...from.childNodes]]);
    moved.forEach(([from, nodes]) => from.before(...nodes));
    try {
        return await axe.run(document, {resultTypes: ['violations', 'incomplete']});
    } finally {
        moved.forEach(([from, nodes]) => from.append(...nodes));
    }
}"""


class Violation(NamedTuple):
    """A rule of axe-core that elements of a page break."""

    rule: str  # image-alt, color-contrast …
    impact: str
    says: str
    elements: tuple[str, ...]  # their HTML

    def __str__(self) -> str:
        return f"{self.rule} ({self.impact}): {self.says}: {'; '.join(self.elements)}"


class Scores(NamedTuple):
    """Lighthouse's, from 0 to 100, and what cost points."""

    accessibility: int
    performance: int
    best_practices: int
    remarks: tuple[str, ...]  # "audit: title"


def axe(page: Page) -> list[Violation]:
    """What is wrong for people with disabilities, by all of axe-core's rules; no violation is an empty list.

    No content security policy stands against it. Where JavaScript is off the page is examined as its visitors see it.
    """
    scripts_run = page.evaluate("matchMedia('(scripting: enabled)').matches")
    page.evaluate(_axe_core())
    found = page.evaluate(RUN_AXE if scripts_run else RUN_AXE_WITHOUT_SCRIPTS)
    doubtful = [one for one in found["incomplete"] if one["id"] in DOUBTFUL]
    return [_violation(one) for one in (*found["violations"], *doubtful)]


def lighthouse(url: str, home: Path, *, desktop: bool = True, headers: Mapping[str, str] | None = None) -> Scores:
    """The scores of a page, loaded by a Chromium of its own, which keeps its files in ``home``.

    ``desktop=False`` is a phone: a processor a fourth as fast and a slow network, both simulated.
    """
    flags = ["--headless", *ARGUMENTS, *(() if sandboxed() else ("--no-sandbox",))]
    report = home / "lighthouse.json"
    command = [str(NODE), str(MODULES / "lighthouse" / "cli" / "index.js"), url, "--quiet", "--output=json"]
    command += [f"--output-path={report}", f"--only-categories={','.join(CATEGORIES)}", "--no-enable-error-reporting"]
    command += [f"--chrome-flags={' '.join(_quoted(flag) for flag in flags)}"]
    command += ["--preset=desktop"] if desktop else []
    command += [f"--extra-headers={json.dumps(dict(headers))}"] if headers else []
    given = {**environment(home), "CHROME_PATH": str(CHROMIUM)}
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, f"Lighthouse has not examined {url}:\n{done.stdout}{done.stderr}"
    return _scores(json.loads(report.read_text(encoding="utf-8")))


def _quoted(flag: str) -> str:
    return f'"{flag}"' if " " in flag else flag


def _scores(report: dict[str, Any]) -> Scores:
    assert not report.get("runtimeError"), report["runtimeError"]
    accessibility, performance, best = (round(100 * report["categories"][name]["score"]) for name in CATEGORIES)
    audits = report["audits"].items()
    remarks = [f"{name}: {one['title']}" for name, one in audits if one["score"] is not None and one["score"] < 1]
    return Scores(accessibility, performance, best, tuple(remarks))


def _violation(found: dict[str, Any]) -> Violation:
    elements = tuple(str(node["html"]) for node in found["nodes"])
    return Violation(str(found["id"]), str(found["impact"]), str(found["help"]), elements)


@cache
def _axe_core() -> str:
    return (MODULES / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
