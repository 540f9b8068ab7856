"""The sink of events that the settings choose."""

from __future__ import annotations

from quarterjack.domain.history.outgoing_event import parse_target
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.ports.receivers import EventSink
from quarterjack.ports.services import Services
from quarterjack.settings import Settings
from quarterjack.values import replace


def with_events(services: Services, settings: Settings) -> Services:
    """The services of a process that publishes events. Raises Misconfigured, with the variable, its value and the remedy."""
    return replace(services, events=event_sink(settings))


def event_sink(settings: Settings) -> EventSink | None:
    """The bus, topic or webhook of QUARTERJACK_EVENTS; None if it is not set. Raises Misconfigured."""
    if settings.events is None:
        return None
    try:
        return _sink(settings)
    except InvalidInput as problem:
        raise Misconfigured(str(problem.about(f"QUARTERJACK_{problem.field.upper()}"))) from None


def _sink(settings: Settings) -> EventSink:
    target = parse_target(settings.events, settings.event_types, settings.event_secret)
    if target.kind == "webhook":
        from quarterjack.ready_jobs.http.webhook import WebhookSink  # noqa: PLC0415 (urllib3: other targets need none)

        networks = [word.strip() for word in (settings.event_networks or "").split(",") if word.strip()]
        return WebhookSink(target, networks=networks)
    from quarterjack.sqs.event_sinks import EventBridgeSink, SnsSink  # noqa: PLC0415 (as above)

    return EventBridgeSink(target, settings) if target.kind == "eventbridge" else SnsSink(target, settings)
