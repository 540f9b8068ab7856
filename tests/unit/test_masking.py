"""Texts without secrets: which encodings are recognised, what is cut, what is left as it is."""

from __future__ import annotations

import base64
import html
import json
import random
import string
import subprocess
import sys
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from quarterjack import masking
from quarterjack.masking import MASK, Masking, SecretValues

VALUES = ('p/a "ss"&word+1', "hush-0123456789", "grüße-und-küsse", "back\\slash'quote", "aB3$%^;<>=?")


def hiding(*values: str, label: str = "token") -> SecretValues:
    found = SecretValues()
    for value in values:
        found.add(value, label)
    return found


WRITINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "quoted": lambda value: quote(value, safe=""),
    "quoted path": quote,
    "quoted in lower case": lambda value: "".join(
        f"%{byte:02x}" if chr(byte) not in string.ascii_letters + string.digits + "_.-~" else chr(byte)
        for byte in value.encode()
    ),
    "form": quote_plus,
    "json": lambda value: json.dumps({"a": value}),
    "json as it is": lambda value: json.dumps({"a": value}, ensure_ascii=False),
    "json in json": lambda value: json.dumps({"a": json.dumps({"b": value})}),
    "json of php": lambda value: json.dumps(value).replace("/", "\\/"),
    "html": html.escape,
    "repr": repr,
    "repr of bytes": lambda value: repr(value.encode()),
    "hexadecimal": lambda value: value.encode().hex(),
    "HEXADECIMAL": lambda value: value.encode().hex().upper(),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64url": lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
    "in the middle": lambda value: f"x{value}y",
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("writing", WRITINGS)
def test_a_value_is_masked_however_it_is_written(writing: str, value: str) -> None:
    written = WRITINGS[writing](value)
    masked = hiding(value).whole(f"you sent <{written}> to us")
    assert MASK in masked
    assert written not in masked
    assert value not in masked
    assert masked.startswith("you sent <")
    assert masked.endswith("> to us")


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("user", ["", "u", "us", "use", "user"])
def test_a_value_inside_of_base64_is_masked_at_each_place(value: str, user: str) -> None:
    """``Basic`` credentials: at most the bits that it shares with its neighbours are left."""
    written = base64.b64encode(f"{user}:{value}:end".encode()).decode()
    masked = hiding(value).whole(f"Basic {written}")
    left = masked.replace(MASK, "").removeprefix("Basic ")
    assert MASK in masked
    assert len(left) <= len(base64.b64encode(f"{user}::end".encode())) + 4


def test_random_values_and_texts() -> None:
    """No value is left, and a text without one is as it was."""
    chance = random.Random(7)
    letters = string.printable + "äöü€\u2028"
    for _ in range(300):
        values = ["".join(chance.choices(letters, k=chance.randint(8, 40))) for _ in range(3)]
        hidden = hiding(*values)
        writing = chance.choice(list(WRITINGS.values()))
        value = chance.choice(values)
        text = "".join(chance.choices(string.ascii_letters + " ", k=40))
        assert hidden.text(text) == text
        masked = hidden.text(f"{text}{writing(value)}{text}")
        assert writing(value) not in masked
        assert value.strip() not in masked
        assert masked.startswith(text[:-1])


def test_pieces_of_a_value_are_masked_where_texts_are_cut() -> None:
    hidden = hiding("hush-0123456789-abcdef")
    assert hidden.text("it was hush-0123456…") == "it was [secret]…"
    assert hidden.text("it was …456789-abcdef") == "it was …[secret]"
    assert hidden.whole("it was hush-0123456…") == "it was hush-0123456…"  # data is never cut


def test_each_piece_of_twelve_characters_is_masked_and_none_of_eleven() -> None:
    value = "hush-0123456789-abcdefghijklmnop"
    hidden = hiding(value)
    for length in (11, 12, 13, 20):
        for at in range(len(value) - length + 1):
            cut = value[at : at + length]
            assert hidden.text(f"a {cut} b" + "x" * 500) == f"a {cut if length == 11 else MASK} b" + "x" * 500


def test_in_a_long_text_many_values_are_found_as_few_are() -> None:
    many = hiding(*(f"value-{number:05}" for number in range(300)))
    for text in ("x" * 1_000, "x" * 10):
        assert many.whole(f"{text}value-00000{text}") == f"{text}{MASK}{text}"
        assert many.whole(f"{text}value-00299{text}") == f"{text}{MASK}{text}"
        assert many.whole(f"{text}value-00300{text}") == f"{text}value-00300{text}"


def test_neighbours_and_overlaps_are_one_mask() -> None:
    assert hiding("abcdefgh", "efghijkl").whole("<abcdefghijkl>") == f"<{MASK}>"
    assert hiding("abcdefgh").whole("<abcdefghabcdefgh>") == f"<{MASK}>"
    assert hiding("abcd").whole("abcdabcd.abcd") == f"{MASK}.{MASK}"


def test_a_value_of_three_characters_is_not_searched() -> None:
    assert hiding("abc").whole("abc") == "abc"


def test_lines_of_a_key_are_values() -> None:
    lines = ["A" * 32 + "b" * 32, "c" * 32 + "D" * 32]
    key = "\n".join(("-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"))
    masked = hiding(key).whole(f"loaded {lines[1]} -----BEGIN PRIVATE KEY-----")
    assert masked == f"loaded {MASK} -----BEGIN PRIVATE KEY-----"


def test_the_password_in_a_json_secret_is_one_and_its_host_is_not() -> None:
    secret = json.dumps({"host": "db.example.com", "password": "hunter2", "more": [{"api_key": "abcdef123"}]})
    masked = hiding(secret).whole("cannot log in to db.example.com with hunter2 or abcdef123")
    assert masked == f"cannot log in to db.example.com with {MASK} or {MASK}"


def test_the_password_in_a_url_is_one_and_its_host_is_not() -> None:
    hidden = hiding("postgres://app:hunt%2Fer@db.example.com:5432/crm-production?ssl=1")
    assert hidden.text("db.example.com refused hunt/er, hunt%2Fer") == f"db.example.com refused {MASK}, {MASK}"
    hook = hiding("https://hooks.example.com/services/T000/B000/0123456789abcdef")
    assert hook.text("https://hooks.example.com: 0123456789abcdef of services") == (
        f"https://hooks.example.com: {MASK} of services"
    )


def test_data_is_masked_in_texts_keys_and_numbers() -> None:
    hidden = hiding("hush-0123", "123456")
    data = {"a": ["hush-0123", 1, None, True, 123456, 1.5], "hush-0123": {"b": "x hush-0123"}}
    assert hidden.data(data) == {"a": [MASK, 1, None, True, MASK, 1.5], MASK: {"b": f"x {MASK}"}}


def test_data_that_holds_a_value_says_whose() -> None:
    hidden = hiding("hush-0123", label="crm-token")
    assert hidden.held_in({"a": [{"b": "Bearer hush-0123"}]}) == "crm-token"
    assert hidden.held_in({"hush-0123": 1}) == "crm-token"
    assert hidden.held_in({"a": "hush", "b": 7}) is None
    assert hiding("4711").held_in(["4711"]) is None  # a short one may stand there by chance


def test_only_those_of_a_label_where_one_is_given() -> None:
    hidden = hiding("hush-0123", label="acme")
    hidden.add("other-0123", "beta")
    assert hidden.whole("hush-0123 other-0123", "acme") == f"{MASK} other-0123"
    assert hidden.held_in(["other-0123"], "acme") is None
    hidden.add("hush-0123", "beta")
    assert hidden.whole("hush-0123 other-0123", "beta") == f"{MASK} {MASK}"


def test_a_process_forgets_the_oldest_and_never_the_newest() -> None:
    hidden = SecretValues(most=20)
    for number in range(200):
        hidden.add(f"value-{number:04}", "acme")
        assert hidden.whole(f"value-{number:04}") == MASK
    assert len(list(hidden)) <= 20
    assert hidden.whole("value-0000") == "value-0000"


def test_a_line_is_masked_by_its_run_and_by_the_process() -> None:
    run = hiding("hush-of-run-0123")
    masking.of_process.add("hush-of-another-0123", "beta")
    with Masking(run):
        assert masking.is_active()
        assert masking.of_line("hush-of-run-0123 hush-of-another-0123") == f"{MASK} {MASK}"
    assert masking.of_line("hush-of-run-0123 hush-of-another-0123") == f"hush-of-run-0123 {MASK}"


def test_fields_of_a_line_that_json_has_not_are_texts() -> None:
    class Shown:
        def __str__(self) -> str:
            return "shown hush-in-object"

    with Masking(hiding("hush-in-object", "77777")):
        given = {"a": Shown(), "b": (1, 77777, None, True), "hush-in-object": b"hush-in-object"}
        assert masking.of_fields(given) == {"a": f"shown {MASK}", "b": [1, MASK, None, True], MASK: f"b'{MASK}'"}


_THREADS = """
import sys, threading
from quarterjack import logs, masking

logs.configure(readable="readable" in sys.argv)
masking.of_process.add("hush-0123456789", "acme")

class Client:
    def __del__(self):
        raise ValueError("left with hush-0123456789")

def work():
    raise ValueError("no login with hush-0123456789")

thread = threading.Thread(target=work, name="of a job")
thread.start()
thread.join()
Client()
threading.Thread(target=sys.exit).start()
"""


def told_by(program: str, form: str) -> str:
    """What a process prints that logs in this form."""
    done = subprocess.run([sys.executable, "-c", program, form], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize("form", ["json", "readable"])
def test_what_nobody_handles_is_logged_and_masked(form: str) -> None:
    """Python itself would print it, past every formatter."""
    told = told_by(_THREADS, form)
    assert "hush" not in told
    for text in ("thread.failed", "no login with [secret]", "finaliser.failed", "left with [secret]", "of a job"):
        assert text in told
    assert told.count("failed") == 2


_SLIPS = """
import logging, sys, warnings
from quarterjack import logs, masking

logs.configure(readable="readable" in sys.argv)
masking.of_process.add("hush-0123456789", "acme")
logging.getLogger("of.job").info("%d items", "hush-0123456789")
logging.getLogger("of.job").info("one %s", "hush-0123456789", "hush-0123456789")
warnings.warn("no TLS for hush-0123456789")
"""


@pytest.mark.parametrize("form", ["json", "readable"])
def test_a_line_that_cannot_be_written_and_a_warning_are_masked(form: str) -> None:
    """Python itself would print the line's arguments, and the warning."""
    told = told_by(_SLIPS, form)
    assert "hush" not in told
    for text in ("of.job", "<string>:7", "<string>:8", "TypeError", "no TLS for [secret]"):
        assert text in told
    assert told.count("line.unwritable") == 2
    assert "Traceback" not in told
