"""Walk through a DAG file as Python would, and note its DAGs, tasks and edges. Nothing of the file is run or imported.

Functions of the file are followed where they are called, and loops over values that are known. What depends on anything else is noted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from quarterjack.errors import InvalidInput
from quarterjack.importers.airflow.calls import DagCalls
from quarterjack.importers.airflow.expressions import combined, dotted, indexed
from quarterjack.importers.airflow.values import (
    AirflowDag,
    AirflowGroup,
    AirflowTask,
    EdgeLabel,
    LocalFunction,
    ResultOf,
    Unknown,
    last_of,
    relate,
)
from quarterjack.values import replace

_MOST_STEPS = 50_000  # statements and expressions that are looked at
_DEEPEST = 10  # calls within each other
_DECORATORS = {"dag": "dag_id", "task": "task_id", "task_group": "group_id"}  # with the name of the first argument
_LOOP = "a loop over a value that only running the file gives: its tasks are not read"
LOOP_OF_DAGS = "a loop over a value that only running the file gives: its DAGs are not read"
_BRANCHES = "both branches of an if are read, since only running the file says which one holds"


class _Returned(Exception):
    """A function of the file returns."""

    def __init__(self, value: Any) -> None:
        self.value = value


class DagFile(DagCalls):
    """What a DAG file declares."""

    def __init__(self, text: str, source: str) -> None:
        super().__init__()
        self._steps = self._depth = 0
        self._source = source
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError) as problem:
            line = getattr(problem, "lineno", None) or 1
            raise InvalidInput(f"{source}:{line}", "…", f"is not Python ({problem})", "give a DAG file") from None
        try:
            self._run(tree.body)
        except (_Returned, RecursionError):
            self.note(1, "the file nests too deep to be read to its end")

    # Statements.

    def _run(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._count(statement)
            self._statement(statement)

    def _count(self, node: ast.stmt | ast.expr) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise InvalidInput(f"{self._source}:{node.lineno}", "…", "is too much to be read", "split the file")

    def _statement(self, node: ast.stmt) -> None:  # noqa: C901 (a table of cases)
        match node:
            case ast.Assign(targets=targets, value=value):
                found = self.value(value)
                for target in targets:
                    self._assign(target, found)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, self.value(value))
            case ast.Expr(value=value):
                self.value(value)
            case ast.With(items=items, body=body):
                self._within(items, body)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._define(node)
            case ast.For(target=target, iter=values, body=body):
                self._loop(target, values, body)
            case ast.If(test=test, body=body, orelse=others):
                self._if(test, body, others)
            case ast.Try(body=body):
                self._run(body)
            case ast.While(body=body):
                self._unread_loop(node.lineno, body)
            case ast.Return(value=value):
                raise _Returned(None if value is None else self.value(value))

    def _assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self.names[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if isinstance(value, list) and len(value) == len(parts):
                for part, one in zip(parts, value, strict=True):
                    self._assign(part, one)
            case ast.Subscript(value=ast.Name(id=name), slice=key):
                known, place = self.names.get(name), self.value(key)
                if isinstance(known, dict) and isinstance(place, (str, int)):
                    known[place] = value

    def _within(self, items: Sequence[ast.withitem], body: Sequence[ast.stmt]) -> None:
        entered = [self.value(item.context_expr) for item in items]
        for item, value in zip(items, entered, strict=True):
            if item.optional_vars is not None:
                self._assign(item.optional_vars, value)
        outer = len(self.open)
        self.open += [value for value in entered if isinstance(value, (AirflowDag, AirflowGroup))]
        self._run(body)
        del self.open[outer:]

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        kind, arguments = "", dict[str, Any]()
        for decorator in node.decorator_list:
            words = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator).split(".")
            first = next((at for at, word in enumerate(words) if word in _DECORATORS), None)
            if words[-1] in ("setup", "teardown"):
                kind = kind or "task"
                arguments |= {"trigger_rule": "all_done"} if words[-1] == "teardown" else {}
            elif first is not None:
                kind = ".".join(words[first:])
                arguments |= self._decorated(decorator, _DECORATORS[words[first]])
        self.names[node.name] = LocalFunction(node, kind, arguments)

    def _decorated(self, decorator: ast.expr, positional: str) -> dict[str, Any]:
        """The arguments of a decorator; the first may have no name."""
        if not isinstance(decorator, ast.Call):
            return {}
        return dict(zip((positional,), map(self.value, decorator.args), strict=False)) | self.keywords(decorator)

    def _loop(self, target: ast.expr, values: ast.expr, body: Sequence[ast.stmt]) -> None:
        found = self.value(values)
        if isinstance(found, dict):
            found = list(found)
        if isinstance(found, list):
            for one in found:
                self._assign(target, one)
                self._run([each for each in body if not isinstance(each, (ast.Break, ast.Continue))])
        else:
            self._unread_loop(values.lineno, body)

    def _unread_loop(self, line: int, body: Sequence[ast.stmt]) -> None:
        calls = [each for one in body for each in ast.walk(one) if isinstance(each, ast.Call)]
        if any(map(self.makes_dag, calls)):
            self.note(line, LOOP_OF_DAGS)
        elif any(map(self.makes_task, calls)):
            self.note(line, _LOOP)

    def _if(self, test: ast.expr, body: Sequence[ast.stmt], others: Sequence[ast.stmt]) -> None:
        text = ast.unparse(test)
        if "__name__" in text or "TYPE_CHECKING" in text:
            self._run(others)
            return
        known = self.value(test)
        if isinstance(known, bool):
            self._run(body if known else others)
            return
        if others and self._makes_tasks([*body, *others]):
            self.note(test.lineno, _BRANCHES)
        self._run(body)
        self._run(others)

    def _makes_tasks(self, body: Sequence[ast.stmt]) -> bool:
        return any(isinstance(each, ast.Call) and self.makes_task(each) for one in body for each in ast.walk(one))

    # Functions of the file.

    def invoke(self, function: LocalFunction, node: ast.Call) -> Any:
        """Follow a call of a function that is no task. A call that is too deep has no value."""
        if self._depth >= _DEEPEST:
            return Unknown(ast.unparse(node))
        given = self.bound(function, node)
        with self._called(given):
            if function.kind == "dag":
                return self._inside(self.dag(function, node), function)
            if function.kind == "task_group":
                name = function.arguments.get("group_id") or function.node.name
                found = self._inside(group := self.group(str(name)), function)
                return found if isinstance(found, (ResultOf, AirflowTask)) and last_of(found) else group
            return self._body(function)

    @contextmanager
    def _called(self, given: Mapping[str, Any]) -> Iterator[None]:
        outer, self.names = self.names, {**self.names, **given}
        self._depth += 1
        yield
        self._depth -= 1
        self.names = outer

    def _inside(self, opened: AirflowDag | AirflowGroup, function: LocalFunction) -> Any:
        self.open.append(opened)
        found = self._body(function)
        self.open.pop()
        return opened if isinstance(opened, AirflowDag) else found

    def _body(self, function: LocalFunction) -> Any:
        opened = len(self.open)
        try:
            self._run(function.node.body)
        except _Returned as returned:
            del self.open[opened:]
            return returned.value
        return None

    # Expressions.

    def value(self, node: ast.expr) -> Any:  # noqa: C901, PLR0911, PLR0912 (a table of cases)
        """The value of an expression."""
        self._count(node)
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return [self.value(part) for part in parts]
            case ast.Dict(keys=keys, values=values):
                return self._dict(keys, values)
            case ast.JoinedStr(values=parts):
                return self._text(node, parts)
            case ast.BinOp(left=left, op=ast.RShift() | ast.LShift() as op, right=right):
                return self._edge(self.value(left), self.value(right), forth=isinstance(op, ast.RShift))
            case ast.BinOp(left=left, right=right):
                return combined(node, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.Subscript(value=value, slice=key):
                return indexed(node, self.value(value), self.value(key))
            case ast.Attribute(value=value, attr="output") if isinstance(task := self.value(value), AirflowTask):
                return ResultOf(task)
            case ast.Await(value=value) | ast.NamedExpr(value=value):
                return self.value(value)
            case ast.ListComp(elt=element, generators=[ast.comprehension(target=target, iter=values, ifs=[])]):
                return self._comprehension(node, element, target, values)
            case ast.Call():
                return self.call(node)
            case ast.Attribute(attr="stem") if ast.unparse(node.value) == "Path(__file__)":
                return self._source.rpartition("/")[2].removesuffix(".py")
        return Unknown(ast.unparse(node))

    def _dict(self, keys: Sequence[ast.expr | None], values: Sequence[ast.expr]) -> dict[Any, Any]:
        found = dict[Any, Any]()
        for key, value in zip(keys, values, strict=True):
            inner = self.value(value)
            if key is None:
                found |= inner if isinstance(inner, dict) else {}
            elif isinstance(name := self.value(key), (str, int)):
                found[name] = inner
        return found

    def _text(self, node: ast.expr, parts: Sequence[ast.expr]) -> Any:
        found = [self.value(part.value if isinstance(part, ast.FormattedValue) else part) for part in parts]
        known = all(isinstance(one, (str, int, float)) for one in found)
        return "".join(map(str, found)) if known else Unknown(ast.unparse(node))

    def _edge(self, left: Any, right: Any, *, forth: bool) -> Any:
        before, after = (left, right) if forth else (right, left)
        if isinstance(right, EdgeLabel):
            return replace(right, before=last_of(left)) if forth else EdgeLabel(last_of(left))
        if isinstance(left, EdgeLabel) and not forth:
            before, after = right, list(left.before)
        relate(before, after)
        return right

    def _comprehension(self, node: ast.expr, element: ast.expr, target: ast.expr, values: ast.expr) -> Any:
        found = self.value(values)
        if not isinstance(found, list):
            if any(isinstance(each, ast.Call) and self.makes_task(each) for each in ast.walk(element)):
                self.note(node.lineno, _LOOP)
            return Unknown(ast.unparse(node))
        made = list[Any]()
        for one in found:
            self._assign(target, one)
            made.append(self.value(element))
        return made
