"""Files of declarations: what YAML says, what it must not say silently, and where an error stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.apply import fields as words
from quarterjack.apply import schema
from quarterjack.apply.document import DeclarationFile, read, write
from quarterjack.apply.nodes import read_documents
from quarterjack.domain.options import OptionWords
from quarterjack.domain.payload import MAX_DEPTH
from quarterjack.errors import ExpressionError, InvalidInput

HEAD = "schedules:\n  a:\n    job: j\n    expression: '0 9 * * *'\n"


def payload_of(text: str) -> Any:
    """What a payload in a file is for the job."""
    (document,) = read(f"{HEAD}    payload: {text}\n", "f.yaml")
    return json.loads(document.declarations[0].payload)


# No surprises.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("null", None),
        ("", None),
        ("7", 7),
        ("-1.5e3", -1500.0),
        ("text", "text"),
        ("1.2.3", "1.2.3"),
        ("10%", "10%"),
        ("10 minutes", "10 minutes"),
        ("'on'", "on"),
        ('"010"', "010"),
        ("'2026-01-01'", "2026-01-01"),
        ("[a, {b: [1, 'no']}]", ["a", {"b": [1, "no"]}]),
        ("|\n      one\n      two", "one\ntwo\n"),
    ],
)
def test_a_scalar_is_what_json_takes_it_for(text: str, value: Any) -> None:
    found = payload_of(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    ["on", "No", "y", "True", "NULL", "~", "010", "0x1F", "+5", "1_000", ".5", "5.", ".inf", "12:30", "2026-01-01"],
)
def test_what_readers_of_yaml_disagree_about_is_refused_where_anything_may_stand(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"f\.yaml:5: schedules\.a\.payload=.* is read differently"):
        payload_of(text)
    with pytest.raises(InvalidInput, match=r"f\.yaml:6: schedules\.a\.payload\.k\[1\]="):
        payload_of(f"\n      k: [1, {text}]")


def test_and_is_text_where_text_is_asked_for() -> None:
    text = "schedules:\n  a:\n    job: on\n    expression: 0 9 * * 1-5\n    description: 2026-01-01\n"
    (document,) = read(text, "f.yaml")
    (found,) = document.declarations
    assert (found.job, found.rule.expression, found.description) == ("on", "0 9 * * 1-5", "2026-01-01")


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**99), 10**99)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    )
)
def test_any_payload_survives_a_file_here_and_in_other_readers(payload: Any) -> None:
    try:
        json.dumps(payload, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    text = write(
        [DeclarationFile(declarations=(), words={"a": {"job": "j", "expression": "*/5 * * * *", "payload": payload}})]
    )
    (document,) = read(text, "f.yaml")
    (found,) = document.declarations
    assert json.loads(found.payload) == payload
    assert found.rule.expression == "*/5 * * * *"
    assert yaml.safe_load(text)["schedules"]["a"].get("payload") == payload


# Where an error stands.


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("schedules:\n  a:\n    expression: */5 * * * *\n", "f.yaml:3", "into quotes"),
        ("schedules:\n  a:\n    expression: @daily\n", "f.yaml:3", "into quotes"),
        ("a: [1\n", "f.yaml:2", "is not YAML"),
        ("schedules: {}\nshedules: {}\n", "f.yaml:2", "is not known here"),
        ("{}", "f.yaml:1", "declares no schedules"),
        ("- a\n", "f.yaml:1", "declares no schedules"),
        ("", "f.yaml", "has no document"),
        ("schedules: [a]\n", "f.yaml:1", "is not a mapping of names"),
        ("schedules:\n  a: x\n", "f.yaml:2", "has no words"),
        ("managed_by: two words\nschedules: {}\n", "f.yaml:1", "is not a valid name"),
        (HEAD + "    expresion: x\n", "f.yaml:5", "is not known here"),
        (HEAD.replace("0 9", "61 9"), "f.yaml:4", "did you mean 59?"),
        (HEAD + "    timezone: Europe/Berln\n", "f.yaml:5", "Europe/Berlin"),
        (HEAD + "    rule:\n      window: -1\n", "f.yaml:6", "rule.window"),
        (HEAD + "    rule:\n      end: 2026-01-01\n", "f.yaml:6", "is not a date and time"),
        (HEAD + "    rule:\n      seed: x\n", "f.yaml:6", "is not known here"),
        (HEAD + "    rule: 5\n", "f.yaml:5", "is not a mapping"),
        (HEAD + "    retry:\n      max_attempts: 0\n", "f.yaml:6", "retry.max_attempts"),
        (HEAD + "    retry:\n      backoff: sometimes\n", "f.yaml:6", "use one of exponential"),
        (HEAD + "    overlap: never\n", "f.yaml:5", "use one of allow"),
        (HEAD + "    paused: yes\n", "f.yaml:5", "is neither true nor false"),
        (HEAD + "    tags: {version: 1.0}\n", "f.yaml:5", "tags"),
        (HEAD + "    timeout: '5'\n", "f.yaml:5", "is not a number of seconds"),
        (HEAD + "  a:\n    job: j\n", "f.yaml:5", "is a duplicate key"),
        (HEAD + "    payload: !!python/object:os.system {}\n", "f.yaml:5", "is a tag"),
        (HEAD + "    payload: {<<: {a: 1}}\n", "f.yaml:5", "is not supported"),
        (HEAD + "    payload: {? [a] : 1}\n", "f.yaml:5", "has a key that is not text"),
        (HEAD + "---\n" + HEAD, "f.yaml", "two documents of one owner"),
        (HEAD + "---\nmanaged_by: x\n" + HEAD, "f.yaml:9", "is declared in f.yaml:3 too"),
        ("schedules:\n  a b:\n    job: j\n    expression: '@daily'\n", "f.yaml:3", "is not a valid name"),
        ("schedules:\n  a:\n    job: j\n", "f.yaml:3", "expression=None: is missing"),
    ],
)
def test_an_error_names_file_line_field_and_remedy(text: str, place: str, what: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(text, "f.yaml")
    assert refused.value.field.startswith(place)
    assert what in str(refused.value)


@pytest.mark.parametrize(
    ("word", "remedy"),
    [("paylod: {api_key: hunter2}", "did you mean 'payload'?"), ("key: hunter2", "use some of job, expression")],
)
def test_of_an_unknown_word_the_value_is_not_shown(word: str, remedy: str) -> None:
    with pytest.raises(InvalidInput, match="is not known here") as refused:
        read(HEAD + f"    {word}\n", "f.yaml")
    assert "hunter2" not in f"{refused.value} {refused.value.value}"
    assert remedy in str(refused.value)


def test_a_bad_expression_keeps_its_position() -> None:
    with pytest.raises(ExpressionError) as refused:
        read(HEAD.replace("0 9", "0 25"), "f.yaml")
    assert refused.value.position == 2


def test_a_name_with_dots_does_not_mislead_the_search_for_the_line() -> None:
    text = "schedules:\n  payload.a:\n    job: j\n    expression: '@daily'\n    payload:\n      a:\n        b: on\n"
    with pytest.raises(InvalidInput, match=r"f\.yaml:7: schedules\.payload\.a\.payload\.a\.b='on'"):
        read(text, "f.yaml")


# Bounds.


@pytest.mark.parametrize(
    "text",
    [
        f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1_000)}]\n",  # 100 MB of text
        f"? {'k' * 100_000}\n: [{', '.join(['1'] * 1_000)}]\n",  # a path for each item
    ],
)
def test_nor_may_a_long_text_or_key_be_repeated(text: str) -> None:
    with pytest.raises(InvalidInput, match="too large"):
        read_documents(text, "f.yaml")


def test_aliases_cannot_make_much_of_little() -> None:
    laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
    )
    with pytest.raises(InvalidInput, match="is too large or too deep"):
        read_documents(laughs, "f.yaml")
    with pytest.raises(InvalidInput, match="is too large or too deep"):
        read_documents("a: &a [*a]\n", "f.yaml")


@pytest.mark.parametrize("deep", ["[" * 100_000 + "]" * 100_000, "- " * 100_000 + "x", "[" * 100_000])
def test_a_deep_file_is_refused_before_the_reader_of_yaml_recurses(deep: str) -> None:
    """libyaml's reader recurses without a bound: 100,000 levels ended the process."""
    with pytest.raises(InvalidInput, match="is too large or too deep"):
        read_documents(deep, "f.yaml")


def test_a_payload_as_deep_as_any_may_be_can_be_written_in_a_file() -> None:
    text = "schedules:\n  s:\n    job: j\n    expression: '@daily'\n    payload: " + "[" * MAX_DEPTH + "]" * MAX_DEPTH
    (document,) = read(text, "f.yaml")
    assert document.declarations[0].payload == "[" * MAX_DEPTH + "]" * MAX_DEPTH
    with pytest.raises(InvalidInput, match=r"f\.yaml:5.*payload.*more than 64 levels"):
        read(text.replace("payload: ", "payload: [").rstrip() + "]", "f.yaml")


def test_a_huge_file_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidInput, match="split it"):
        read_documents("#" * (16 * 1024 * 1024 + 1), "f.yaml")


# The schema.


def test_the_schema_knows_the_words_that_are_read_and_no_others() -> None:
    top = json.loads(schema.published())
    found = top["properties"]["schedules"]["additionalProperties"]["properties"]
    assert tuple(found) == words.ALL
    assert set(words.OPTIONS) == set(OptionWords.__annotations__)
    assert tuple(found["rule"]["properties"]) == words.RULE
    assert tuple(found["retry"]["properties"]) == words.RETRY
    assert "seed" not in words.RULE


def test_every_choice_of_the_schema_is_taken() -> None:
    top = json.loads(schema.published())
    found = top["properties"]["schedules"]["additionalProperties"]["properties"]
    choices = {name: said["enum"] for name, said in found.items() if "enum" in said}
    assert set(choices) >= {"overlap", "catch_up", "delivery", "start"}
    for name, known in choices.items():
        for word in known:
            read(f"{HEAD}    {name}: {word}\n", "f.yaml")
    for name, said in found["rule"]["properties"].items():
        for word in said.get("enum", ()):
            read(f"{HEAD}    rule: {{{name}: {word}}}\n", "f.yaml")


@pytest.mark.parametrize("given", ["", "    job: pipeline:a\n", "    expression: manual\n"])
def test_what_has_tasks_needs_neither_job_nor_expression(given: str) -> None:
    (document,) = read(f"schedules:\n  a:\n{given}    tasks: {{t: {{job: j}}}}\n", "f.yaml")
    (one,) = document.declarations
    assert (one.job, one.rule.expression) == ("pipeline:a", "manual")


def test_a_schedule_without_an_expression_is_refused_with_what_to_write() -> None:
    with pytest.raises(InvalidInput, match=r"f\.yaml:\d: schedules\.a\.expression=None: is missing; .*expression: 0 2"):
        read("schedules:\n  a:\n    job: j\n", "f.yaml")
