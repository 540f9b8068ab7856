"""Credentials and proxies: from the environment where they are there, from botocore's chain elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from quarterjack.aws.session import AwsSession
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.settings import SdkVariables, sdk_variables

from tests.support.http_servers import KEYS, VARIABLES


def test_keys_in_the_environment_are_taken_without_botocore() -> None:
    session = AwsSession(sdk_variables(VARIABLES | {"AWS_PROFILE": "work"}))
    assert session.credentials() == KEYS
    assert session._botocore._made is None


@pytest.mark.parametrize("name", ["AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"])
def test_a_session_token_goes_with_them(name: str) -> None:
    keys = sdk_variables(VARIABLES | {name: "token"}).keys
    assert keys is not None
    assert keys.token == "token"


@pytest.mark.parametrize("also", [{"AWS_CREDENTIAL_EXPIRATION": "2026-11-21T06:00:00Z"}, {"AWS_ACCESS_KEY_ID": ""}])
def test_keys_that_expire_or_are_not_whole_are_left_to_botocore(also: dict[str, str]) -> None:
    assert sdk_variables(VARIABLES | also).keys is None


@pytest.mark.parametrize("odd", ["s3cret\n", "s3 cret", "s3cr\u00e9t", "\ufeffs3cret"])
@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
def test_keys_that_no_request_can_carry_are_refused_and_not_shown(name: str, odd: str) -> None:
    with pytest.raises(Misconfigured, match=name) as problem:
        sdk_variables(VARIABLES | {name: odd})
    assert "s3" not in str(problem.value)


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment in which botocore finds nothing."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


def test_a_profiles_process_gives_credentials_and_is_asked_again_when_they_are_old(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As single sign-on, roles and EKS Pod Identity do: botocore's chain has them and refreshes them."""
    counter, helper = empty / "count", empty / "helper.py"
    helper.write_text(
        "import json, pathlib, sys\n"
        f"place = pathlib.Path({str(counter)!r})\n"
        "number = int(place.read_text()) + 1 if place.exists() else 1\n"
        "place.write_text(str(number))\n"
        "print(json.dumps({'Version': 1, 'AccessKeyId': f'key{number}', 'SecretAccessKey': 's',\n"
        "                  'SessionToken': 't', 'Expiration': '2000-01-01T00:00:00Z'}))\n"
    )
    (empty / "config").write_text(f"[profile work]\ncredential_process = {sys.executable} {helper}\n")
    monkeypatch.setenv("AWS_PROFILE", "work")
    session = AwsSession()
    with pytest.raises(Unavailable, match="credentials"):
        session.credentials()  # refreshed, and old at once: refused by botocore
    assert int(counter.read_text()) >= 1
    helper.write_text(helper.read_text().replace("2000-01", "2099-01"))
    assert session.credentials().access_key == f"key{counter.read_text()}"


def test_a_pod_or_container_gives_credentials(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EKS Pod Identity and ECS: a URL on the loopback, and a token in a file that goes with the request."""
    import http.server
    import threading

    asked: list[str | None] = []

    class Agent(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Authorization"])
            said = {"AccessKeyId": "pod", "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00:00Z"}
            content = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    (empty / "token").write_text("bearer-of-the-pod")
    with http.server.HTTPServer(("127.0.0.1", 0), Agent) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(empty / "token"))
        session = AwsSession()
        assert [session.credentials().access_key for _ in range(2)] == ["pod", "pod"]
        server.shutdown()
        thread.join()
    assert asked == ["bearer-of-the-pod"]


def test_without_credentials_the_remedy_is_named(empty: Path) -> None:
    with pytest.raises(Misconfigured, match="AWS_PROFILE"):
        AwsSession().credentials()


# Certificates and proxies.


def test_a_profiles_certificates_are_followed(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty / "config").write_text(f"[profile work]\nca_bundle = {empty / 'missing.pem'}\n")
    monkeypatch.setenv("AWS_PROFILE", "work")
    with pytest.raises(Misconfigured, match=r"missing\.pem"):
        AwsSession().trust()


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://sqs.eu-west-1.amazonaws.com", "http://proxy:3128"),
        ("http://127.0.0.1:4566", None),
        ("http://cloud:4566", "http://other:1"),
    ],
)
def test_proxies_are_those_of_the_environment(url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("HTTP_PROXY", "http://other:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    assert AwsSession(sdk_variables()).proxy(url) == proxy
    assert AwsSession(SdkVariables()).proxy(url) is None
