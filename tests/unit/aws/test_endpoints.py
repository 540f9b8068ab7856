"""Where requests go: by the SDK's variables and files as botocore reads them, or refused with the variable to set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import botocore.session
import pytest
from quarterjack.aws.session import AwsSession, Endpoint, endpoint_of
from quarterjack.aws.transport import ATTEMPTS, attempts_of
from quarterjack.errors import Misconfigured
from quarterjack.settings import SdkVariables, Settings, from_environment, sdk_variables

from tests.support.http_servers import KEYS, VARIABLES

REGION = {"AWS_REGION": "eu-west-1"}
AWS = "https://{}.eu-west-1.amazonaws.com"
ACCOUNT = {"AWS_ACCOUNT_ID": "123456789012"}
OF_ACCOUNT = "https://123456789012.ddb.eu-west-1.amazonaws.com"


@pytest.fixture(autouse=True)
def _no_other_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def found(service: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """By these variables; they are botocore's as well."""
    for name, value in (VARIABLES | variables).items():
        monkeypatch.setenv(name, value)
    return endpoint_of(service, from_environment(), AwsSession(sdk_variables()))


@pytest.mark.parametrize("service", ["dynamodb", "sqs", "lambda"])
def test_endpoints_are_botocores(service: str) -> None:
    """Of every region of the partition `aws`, by our own rule and without botocore; others are botocore's by construction."""
    session = botocore.session.get_session()
    for region in session.get_available_regions(service, partition_name="aws"):
        here = AwsSession(SdkVariables(keys=KEYS))
        url = session.create_client(service, region_name=region).meta.endpoint_url
        assert endpoint_of(service, Settings(region=region), here) == (url, region)
        assert here._botocore._made is None, f"{region} needs botocore"


@pytest.mark.parametrize(
    ("service", "variables", "url"),
    [
        ("sqs", {"AWS_ENDPOINT_URL": "http://cloud:4566/aws/"}, "http://cloud:4566/aws"),
        ("sqs", {"AWS_ENDPOINT_URL_SQS": "http://q:1", "AWS_ENDPOINT_URL": "http://c:2"}, "http://q:1"),
        ("dynamodb", {"AWS_ENDPOINT_URL_SQS": "http://q:1"}, AWS.format("dynamodb")),
        (
            "sqs",
            {
                "AWS_ENDPOINT_URL_SQS": "http://q:1",
                "AWS_ENDPOINT_URL": "http://c:2",
                "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "True",
            },
            AWS.format("sqs"),
        ),
        ("dynamodb", {"AWS_USE_FIPS_ENDPOINT": "true"}, "https://dynamodb-fips.eu-west-1.amazonaws.com"),
        ("sqs", {"AWS_USE_DUALSTACK_ENDPOINT": "true"}, "https://sqs.eu-west-1.api.aws"),
        ("dynamodb", {"AWS_REGION": "cn-north-1"}, "https://dynamodb.cn-north-1.amazonaws.com.cn"),
        ("dynamodb", ACCOUNT, OF_ACCOUNT),
        ("sqs", ACCOUNT, AWS.format("sqs")),
        ("dynamodb", ACCOUNT | {"AWS_ACCOUNT_ID_ENDPOINT_MODE": "required"}, OF_ACCOUNT),
        ("dynamodb", ACCOUNT | {"AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled"}, AWS.format("dynamodb")),
        ("dynamodb", ACCOUNT | {"AWS_ENDPOINT_URL": "http://c:2"}, "http://c:2"),
        ("dynamodb", ACCOUNT | {"AWS_USE_FIPS_ENDPOINT": "true"}, "https://dynamodb-fips.eu-west-1.amazonaws.com"),
    ],
)
def test_the_variables_of_the_sdk_are_followed_as_botocore_does(
    service: str, variables: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(service, REGION | variables, monkeypatch).url == url
    assert _botocores(service) == url


class Asked(Exception):
    """A request was about to be sent."""


def _botocores(service: str) -> str:
    """The URL that botocore would ask, by the environment alone."""
    session = botocore.session.get_session()
    if session.get_config_variable("region") is None:  # it reads AWS_DEFAULT_REGION only
        session.set_config_variable("region", from_environment().region)
    asked: list[str] = []

    def note(request: Any, **_: object) -> None:
        asked.append(request.url)
        raise Asked

    client = session.create_client(service)
    client.meta.events.register("before-send", note)
    with pytest.raises(Asked):
        client.list_tables() if service == "dynamodb" else client.list_queues()
    return asked[0].rstrip("/")


@pytest.mark.parametrize(
    ("profile", "url"),
    [
        ("region = us-east-2", "https://dynamodb.us-east-2.amazonaws.com"),
        ("region = us-east-2\nuse_fips_endpoint = true", "https://dynamodb-fips.us-east-2.amazonaws.com"),
        ("region = us-east-2\nendpoint_url = http://cloud:8000", "http://cloud:8000"),
    ],
)
def test_a_profile_is_followed(profile: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text(f"[profile work]\n{profile}\n")
    variables = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_PROFILE": "work"}
    assert found("dynamodb", variables, monkeypatch) == (url, "us-east-2")


@pytest.mark.parametrize(("with_keys", "host"), [(False, "123456789012.ddb"), (True, "dynamodb")])
def test_the_account_of_a_profile_is_that_of_its_credentials(
    with_keys: bool, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys in the environment go before the profile's, and may be of another account."""
    (tmp_path / "config").write_text("[profile work]\nregion = us-east-2\naws_account_id = 123456789012\n")
    keys = {} if with_keys else {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    variables = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_PROFILE": "work", **keys}
    assert found("dynamodb", variables, monkeypatch).url == f"https://{host}.us-east-2.amazonaws.com"


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({}, "AWS_REGION"),
        ({"AWS_REGION": "EU west"}, "AWS_REGION='EU west'"),
        (REGION | {"AWS_ACCOUNT_ID_ENDPOINT_MODE": "required"}, "AWS_ACCOUNT_ID=None"),
        (REGION | {"AWS_ACCOUNT_ID": "12"}, "AWS_ACCOUNT_ID='12'"),
        (REGION | {"AWS_ACCOUNT_ID_ENDPOINT_MODE": "always"}, "AWS_ACCOUNT_ID_ENDPOINT_MODE='always'"),
        (REGION | {"AWS_MAX_ATTEMPTS": "0"}, "AWS_MAX_ATTEMPTS=0"),
        (REGION | {"AWS_MAX_ATTEMPTS": "many"}, "AWS_MAX_ATTEMPTS='many'"),
        *(
            (REGION | {"AWS_ENDPOINT_URL": odd}, "is not a URL")
            for odd in (
                *("127.0.0.1:4566", "ftp://cloud/", "http://user@cloud/", "http:///", "http://cloud/?a=b"),
                *("http://cloud:99999/", "http://[::1/", "http://a..b/"),
            )
        ),
    ],
)
def test_a_value_that_cannot_be_followed_is_refused_by_its_name(
    variables: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Misconfigured, match=named.replace("(", r"\(")):
        found("dynamodb", variables, monkeypatch)


# Retries.


@pytest.mark.parametrize(
    ("variables", "attempts"),
    [({}, ATTEMPTS), ({"AWS_MAX_ATTEMPTS": "2"}, 2), ({"AWS_RETRY_MODE": "standard"}, ATTEMPTS)],
)
def test_the_number_of_attempts_is_followed(variables: dict[str, str], attempts: int) -> None:
    assert attempts_of(sdk_variables(VARIABLES | variables)) == attempts


@pytest.mark.parametrize("mode", ["adaptive", "legacy", "eager"])
def test_a_retry_mode_that_our_requests_do_not_have_is_refused(mode: str) -> None:
    with pytest.raises(Misconfigured, match=rf"AWS_RETRY_MODE='{mode}'.*QUARTERJACK_AWS_CLIENT=botocore"):
        attempts_of(sdk_variables(VARIABLES | {"AWS_RETRY_MODE": mode}))
