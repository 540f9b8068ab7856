"""Every library that a module imports is declared by each extra that promises the module, and not only brought along by another one."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions

from tests.support.wheels import CORE, ROOT, WITH_PYTEST, owners, sources
from tools.pins import direct, normal

DOCUMENT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = DOCUMENT["project"]["optional-dependencies"]
OURS = {"functions", "infra", "quarterjack"}
# Libraries whose types are part of the interface of another one, which requires them.
PARTS = {
    "botocore": "boto3",
    "jsii": "aws-cdk-lib",
    "markupsafe": "jinja2",
    "pydantic-core": "pydantic",
    "starlette": "fastapi",
    "typing-extensions": "pydantic",
}


def imports(tree: ast.AST, *, lazy: bool = False) -> Iterator[tuple[str, bool]]:
    """Each imported top-level name, and whether that is within a function. What only type checkers import is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from ((each.name.partition(".")[0], lazy) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0], lazy
        else:
            yield from imports(node, lazy=lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_an_import_is_declared_by_each_extra_that_promises_its_module() -> None:
    distributions = packages_distributions()
    declared = {extra: direct([extra], DOCUMENT) for extra in EXTRAS} | {CORE: direct(["yaml"], DOCUMENT) - {"pyyaml"}}
    anywhere = set[str]().union(*declared.values())
    undeclared = set()
    for module, place in sources():
        for name, lazy in set(imports(ast.parse(place.read_text(encoding="utf-8")))):
            if name in OURS or name in sys.stdlib_module_names or name == "annotationlib" or module in WITH_PYTEST:
                continue
            library = normal(distributions[name][0])
            needed = PARTS.get(library, library)
            among = [anywhere] if lazy else [declared[extra] for extra in owners(module)]
            undeclared |= {f"{module}: {library}" for known in among if needed not in known}
    assert not undeclared
