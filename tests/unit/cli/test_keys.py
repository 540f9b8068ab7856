"""``quarterjack keys …`` as one types them."""

from __future__ import annotations

import pytest

from tests.support.command_line import Say

pytestmark = pytest.mark.cloud


def test_a_key_is_printed_once_listed_and_revoked(said: Say) -> None:
    nothing = said("keys", "list")
    assert (nothing.code, nothing.out) == (0, "")
    assert "no API key" in nothing.err
    made = said("keys", "create", "crm", "--can", "submit", "--jobs", "crm.*", "--expires", "90d")
    (text,) = made.out.splitlines()
    assert text.startswith("qj_default_crm.1_")
    assert "shown this once" in made.err
    (second,) = said("--json", "keys", "create", "crm", "--can", "viewer").json
    assert second["key"]["id"] == "crm.2"
    listed = said("keys", "list").out
    assert [line.split()[:2] for line in listed.splitlines()] == [
        ["id", "can"],
        ["crm.1", "submit"],
        ["crm.2", "viewer"],
    ]
    assert "never" in listed
    assert text not in listed
    assert said("keys", "create", "crm", "--can", "submit").code == 4
    refused = said("keys", "revoke", "crm.1")
    assert refused.code == 8
    assert "Revoke key crm.1 of tenant default" in refused.err
    assert said("keys", "revoke", "crm.1", "--yes").out == "revoked; after 5 s no process accepts it\n"
    assert said("--json", "keys", "revoke", "crm.2", "--yes").json == [{"revoked": "crm.2"}]
    assert [key["id"] for key in said("--json", "keys", "list").json] == []


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("create", "a_b", "--can", "submit"), "NAME"),
        (("create", "crm", "--can", "submitt"), "--can"),
        (("create", "crm", "--can", "submit", "--jobs", "a b"), "--jobs"),
        (("create", "crm", "--can", "submit", "--expires", "2020-01-01T00:00:00Z"), "--expires"),
    ],
)
def test_what_is_wrong_is_named_as_it_was_typed(said: Say, words: tuple[str, ...], field: str) -> None:
    ended = said("keys", *words)
    assert ended.code == 1
    assert f"{field}=" in ended.err or f"{field} " in ended.err
    assert said("--json", "keys", "list").json == []


def test_a_key_that_is_not_there(said: Say) -> None:
    ended = said("keys", "revoke", "crm.1", "--yes")
    assert ended.code == 3
    assert "`quarterjack keys list` shows those there are" in ended.err
