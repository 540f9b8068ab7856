"""Settings: every field that says it has a variable is read from it."""

from __future__ import annotations

from dataclasses import fields

import pytest
from quarterjack.errors import Misconfigured
from quarterjack.settings import Settings, from_environment

NUMBERS = [field.name for field in fields(Settings) if type(field.default) is int]


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_read_from_its_variable(name: str) -> None:
    other = getattr(Settings(), name) + {"ticker_writes": 1_000, "app_version_share": -1}.get(name, 1)
    assert getattr(from_environment({f"QUARTERJACK_{name.upper()}": str(other)}), name) == other


def test_the_history_is_on_unless_its_variable_says_off() -> None:
    assert from_environment({}).history is True
    assert from_environment({"QUARTERJACK_HISTORY": "on"}).history is True
    assert from_environment({"QUARTERJACK_HISTORY": "off"}).history is False


@pytest.mark.parametrize("text", ["", "true", "0", "On"])
def test_another_word_for_the_history_is_refused_with_what_may_stand_there(text: str) -> None:
    with pytest.raises(Misconfigured, match=rf"QUARTERJACK_HISTORY='{text}' is not known; use 'on' or 'off'"):
        from_environment({"QUARTERJACK_HISTORY": text})


def test_workers_apply_declarations_only_if_they_are_told_to() -> None:
    assert from_environment({}).apply_declarations is False
    assert from_environment({"QUARTERJACK_APPLY_DECLARATIONS": "on"}).apply_declarations is True
    with pytest.raises(Misconfigured, match="QUARTERJACK_APPLY_DECLARATIONS='yes' is not known; use 'on' or 'off'"):
        from_environment({"QUARTERJACK_APPLY_DECLARATIONS": "yes"})


def test_the_history_of_settings_made_in_code_is_true_or_false() -> None:
    with pytest.raises(Misconfigured, match="QUARTERJACK_HISTORY='off' is not known; use True or False"):
        Settings(history="off")  # type: ignore[arg-type]


@pytest.mark.parametrize("variable", ["QUARTERJACK_BUCKET", "QUARTERJACK_ARCHIVE_BUCKET"])
@pytest.mark.parametrize("text", ["", "a/b", "s3://acme"])
def test_what_is_no_bucket_is_refused_with_variable_value_and_remedy(variable: str, text: str) -> None:
    with pytest.raises(Misconfigured, match=rf"{variable}={text!r} is not the name of a bucket; use .*BucketName"):
        from_environment({variable: text})


@pytest.mark.parametrize("name", ["acme-jobs", "arn:aws:s3:eu-west-1:123456789012:accesspoint/acme"])
def test_a_bucket_is_a_name_or_an_access_point(name: str) -> None:
    assert from_environment({"QUARTERJACK_BUCKET": name}).bucket == name
