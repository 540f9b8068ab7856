"""Checks of the AWS account: concurrency for the ticker's function, and topics that the alarms can publish to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quarterjack.doctor.context import DoctorContext, Finding, ProbeAnswer, fail, ok, warn
from quarterjack.settings import DEFAULT_TICKER_GROUPS
from quarterjack.values import replace

_UNRESERVED = 100  # functions that AWS refuses to reserve
_OTHERS = 12  # the undertaker's most, the auditor, and one more
_CLOUDWATCH = "cloudwatch.amazonaws.com"
_REMEDY = "add the statement of docs/how-to/deploy.md, `A topic of your own`"


def concurrency(context: DoctorContext) -> Iterator[Finding]:
    """Whether the workers leave the ticker its functions. Without deployed functions there is nothing to say."""
    call, name = context.probe.call, f"{context.settings.prefix}-ticker"
    ticker = call("lambda", "get_function_configuration", FunctionName=name)
    if ticker.code is not None:
        if ticker.denied:
            yield _unseen(ticker)
        return
    answers = (
        call("lambda", "get_account_settings"),
        call("lambda", "get_function_concurrency", FunctionName=name),
        event_sources(context),
    )
    for answer in answers:
        if answer.code is not None:
            if answer.denied:
                yield _unseen(answer)
            return
    account, reserved, sources = (answer.data for answer in answers)
    variables = ticker.data.get("Environment", {}).get("Variables", {})
    needed = 1 + int(variables.get("QUARTERJACK_TICKER_GROUPS", DEFAULT_TICKER_GROUPS))
    workers = _limits(sources.get("EventSourceMappings", []), f":function:{context.settings.prefix}-worker")
    yield _verdict(account.get("AccountLimit", {}), reserved.get("ReservedConcurrentExecutions"), needed, workers)


def event_sources(context: DoctorContext) -> ProbeAnswer:
    """The event sources of all functions, page by page."""
    found: list[Mapping[str, Any]] = []
    page: dict[str, str] = {}
    while True:
        answer = context.probe.call("lambda", "list_event_source_mappings", **page)
        found += answer.data.get("EventSourceMappings", [])
        if answer.code is not None or not (marker := answer.data.get("NextMarker")):
            return replace(answer, data={"EventSourceMappings": found})
        page = {"Marker": marker}


def _limits(sources: Sequence[Mapping[str, Any]], function: str) -> list[int | None]:
    """The most functions of each event source of a worker; None: no limit."""
    found = (source for source in sources if function in str(source.get("FunctionArn", "")))
    return [_most(source) for source in found]


def _most(source: Mapping[str, Any]) -> int | None:
    pollers: int | None = source.get("ProvisionedPollerConfig", {}).get("MaximumPollers")
    limit: int | None = source.get("ScalingConfig", {}).get("MaximumConcurrency")
    return 10 * pollers if pollers is not None else limit


def _verdict(account: Mapping[str, int], reserved: int | None, needed: int, workers: Sequence[int | None]) -> Finding:
    quota = account.get("ConcurrentExecutions", 0)
    shared = account.get("UnreservedConcurrentExecutions", quota)
    if reserved is not None:
        if reserved >= needed:
            return ok(f"{reserved} of the account's {quota} functions are reserved for the ticker")
        remedy = f"set ticker_reserved={needed}, or None, and deploy"
        return warn(f"the ticker may have {reserved} functions, and a tick may need {needed}", remedy)
    known = [limit for limit in workers if limit is not None]
    most = "any number" if len(known) < len(workers) else str(sum(known))
    what = f"workers may take {most} of the {shared} functions that the account's functions share"
    if len(known) == len(workers) and shared - sum(known) >= needed + _OTHERS:
        return ok(f"{what}; a tick may need {needed}")
    return warn(f"{what}; a tick that needs up to {needed} and finds none is late", _advice(quota, shared, needed))


def _advice(quota: int, shared: int, needed: int) -> str:
    """Numbers that fit this account."""
    if shared - needed >= _UNRESERVED:
        return f"set ticker_reserved={needed}, or max_concurrency to {shared // 2} in all, and deploy"
    fitting = f"ticker_groups=1 and max_concurrency={max(2, shared // 2)} in all"
    return f"ask for more of Lambda's quota `Concurrent executions`, which is {quota}; until then set {fitting}, and deploy"


def alarms(context: DoctorContext) -> Iterator[Finding]:
    """Whether the topics of the alarms let CloudWatch publish: an alarm whose action is refused reaches no one."""
    prefix = f"{context.settings.prefix}-"
    answer = context.probe.call("cloudwatch", "describe_alarms", AlarmNamePrefix=prefix)
    if answer.code is not None:
        if answer.denied:
            yield _unseen(answer)
        return
    found = answer.data.get("MetricAlarms", [])
    for topic in sorted({arn for alarm in found for arn in alarm.get("AlarmActions", []) if ":sns:" in arn}):
        yield _topic(context, topic)


def _topic(context: DoctorContext, topic: str) -> Finding:
    answer = context.probe.call("sns", "get_topic_attributes", TopicArn=topic)
    if answer.code is not None:
        missing = answer.code in ("NotFound", "NotFoundException")
        return fail(f"{topic} is not there", "deploy again, with a topic that exists") if missing else _unseen(answer)
    attributes = answer.data.get("Attributes", {})
    if not _lets_publish(json.loads(attributes.get("Policy") or "{}"), topic):
        return fail(f"{topic} does not let CloudWatch publish: no alarm arrives", _REMEDY)
    key = attributes.get("KmsMasterKeyId")
    if key and not _may_use_key(context, key):
        remedy = f"let {_CLOUDWATCH} use kms:Decrypt and kms:GenerateDataKey* of a key of your own"
        return fail(f"{topic} is encrypted with {key}, which CloudWatch may not use: no alarm arrives", remedy)
    if attributes.get("SubscriptionsConfirmed") == "0":
        return warn(f"{topic} has no subscriber", "subscribe to it: aws sns subscribe")
    return ok(topic)


def _may_use_key(context: DoctorContext, key: str) -> bool:
    """False for AWS's own key, whose policy names no service, and for a policy without CloudWatch; True if it cannot be read."""
    if key.endswith("alias/aws/sns"):
        return False
    answer = context.probe.call("kms", "get_key_policy", KeyId=key, PolicyName="default")
    return answer.code is not None or _has(
        json.loads(answer.data.get("Policy") or "{}"), _CLOUDWATCH, "kms:GenerateDataKey"
    )


def _lets_publish(policy: Mapping[str, Any], topic: str) -> bool:
    """SNS's default policy allows the topic's own account; any other has to name CloudWatch."""
    account = topic.split(":")[4]
    return _has(policy, _CLOUDWATCH, "sns:Publish") or any(
        account in json.dumps(statement.get("Condition", {})) and "SourceOwner" in json.dumps(statement)
        for statement in _allowing(policy, "sns:Publish")
        if statement.get("Principal") in ("*", {"AWS": "*"})
    )


def _has(policy: Mapping[str, Any], service: str, action: str) -> bool:
    """Whether a policy allows an action to a service. Conditions are not evaluated."""
    return any(service in _listed(_service(statement)) for statement in _allowing(policy, action))


def _service(statement: Mapping[str, Any]) -> Any:
    principal = statement.get("Principal")
    return principal.get("Service", ()) if isinstance(principal, dict) else ()


def _allowing(policy: Mapping[str, Any], action: str) -> Iterator[Mapping[str, Any]]:
    service = action.partition(":")[0]
    for statement in policy.get("Statement", []):
        named = {word.lower().rstrip("*") for word in _listed(statement.get("Action", ()))}
        wanted = action.lower()
        if statement.get("Effect") == "Allow" and (named & {wanted, f"{service}:", ""}):
            yield statement


def _listed(value: Any) -> Sequence[str]:
    return (value,) if isinstance(value, str) else value


def _unseen(answer: ProbeAnswer) -> Finding:
    return warn(
        f"not checked: {answer.action} is refused", f"allow {answer.action}, or run the doctor with a role that may"
    )
