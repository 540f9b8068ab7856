"""Ports and keys that a data directory keeps; files that were damaged are named with their remedy."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from quarterjack.errors import Misconfigured
from quarterjack.local.data_directory import DataDirectory, kept_key, kept_keys, kept_port
from quarterjack.local.loopback import new_key
from quarterjack.local.session.session import _page


def test_a_key_is_the_same_at_each_start_and_the_users_alone(tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    first = kept_key(file, new_key)
    file.chmod(0o644)
    assert kept_key(file, new_key) == first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_access_key_too(tmp_path: Path) -> None:
    assert DataDirectory(tmp_path).keys() == DataDirectory(tmp_path).keys()


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff\xfe", b"[]", b'{"key": 7}', b'{"key": "short"}', b"{}"])
def test_a_damaged_key_is_named_and_not_replaced(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    file.write_bytes(content)
    with pytest.raises(Misconfigured, match=r"key\.json': its content does not have key; remove the file"):
        kept_keys(file, lambda: {"key": new_key()})
    assert file.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff\xfe", b"-1", b"65536", "٣".encode()])
def test_a_damaged_port_is_named(content: bytes, tmp_path: Path) -> None:
    for name in ("port", "page.port"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(Misconfigured, match=r"/port': .* is no port; remove the file"):
        DataDirectory(tmp_path).port()
    with pytest.raises(Misconfigured, match=r"/page\.port': .* is no port; remove the file"), _page(tmp_path):
        pass


def test_before_the_first_start_there_is_no_port(tmp_path: Path) -> None:
    assert kept_port(tmp_path / "port") == 0
