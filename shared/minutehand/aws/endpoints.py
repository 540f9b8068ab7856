"""Endpoints: the URL and the region of a service, from settings, the SDK's variables and, for all but the plain case, botocore's rules."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from minutehand.aws.session import AwsSession
from minutehand.errors import Misconfigured
from minutehand.settings import Settings

_PUBLIC = re.compile(r"(us|eu|ap|sa|ca|me|af|il|mx)-[a-z]+-\d+")  # the regions of the partition `aws`
_REGION = re.compile(r"[a-z0-9-]{1,63}")
_ACCOUNT = re.compile(r"\d{12}")


class Endpoint(NamedTuple):
    """Where the requests to one service go."""

    url: str  # without a slash at its end
    region: str


def endpoint_of(service: str, settings: Settings, session: AwsSession) -> Endpoint:
    """The endpoint of a service. Raises Misconfigured."""
    region, url = settings.region or "", settings.endpoint_of(service)
    if region and not _REGION.fullmatch(region):
        raise Misconfigured(
            f"AWS_REGION={region!r} is not a region; set it to the region of your stack, such as 'eu-west-1'"
        )
    if url is not None and region:
        return Endpoint(_checked(url, service), region)
    variables = session.variables
    if variables.has_files or variables.has_variants or not _PUBLIC.fullmatch(region):
        return _by_botocore(service, settings, session)
    return Endpoint(f"https://{_host(service, region, session)}", region)


def _host(service: str, region: str, session: AwsSession) -> str:
    """The host of a service in the partition `aws`. DynamoDB has hosts of single accounts."""
    account, mode = session.variables.account_id, session.variables.account_id_endpoints
    if service != "dynamodb" or mode == "disabled" or (account is None and mode == "preferred"):
        return f"{service}.{region}.amazonaws.com"
    if account is None or not _ACCOUNT.fullmatch(account):
        raise Misconfigured(
            f"AWS_ACCOUNT_ID={account!r} has to be 12 digits for the endpoint of an account; set it, or "
            "AWS_ACCOUNT_ID_ENDPOINT_MODE=disabled"
        )
    return f"{account}.ddb.{region}.amazonaws.com"


def _by_botocore(service: str, settings: Settings, session: AwsSession) -> Endpoint:
    """The endpoint that botocore takes: by profile, partition, FIPS, dual stack. A signed URL shows it; it is not requested."""
    from botocore.exceptions import BotoCoreError, NoRegionError  # noqa: PLC0415 (a Lambda function needs no botocore)

    try:
        client = session.botocore.create_client(
            service,
            endpoint_url=settings.endpoint_of(service),
            region_name=settings.region,
            aws_access_key_id="none",
            aws_secret_access_key="none",  # noqa: S106 (nothing is signed with it that is sent)
            aws_account_id=session.account_id(),
        )
        url = client.generate_presigned_url("list_tables") if service == "dynamodb" else client.meta.endpoint_url
    except NoRegionError as problem:
        raise Misconfigured(
            f"AWS_REGION={settings.region!r}: {problem} Set it to the region of your stack"
        ) from problem
    except (BotoCoreError, ValueError) as problem:
        raise Misconfigured(
            f"{service}: {problem}; set AWS_REGION, AWS_ENDPOINT_URL and the profile to where your stack is"
        ) from problem
    return Endpoint(_checked(url.partition("?")[0], service), client.meta.region_name)


def _checked(url: str, service: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port, (parts.hostname or "").encode("idna")
        is_plain = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc and not parts.query
    except ValueError:  # a port or a host that is none
        is_plain = False
    if not is_plain:
        raise Misconfigured(
            f"AWS_ENDPOINT_URL={url!r} of {service} is not a URL; use http:// or https://, a host, and a port or a path if need be"
        )
    return url.rstrip("/")
