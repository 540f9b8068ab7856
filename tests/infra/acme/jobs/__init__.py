"""A user's package, as the construct bundles it."""

from quarterjack import Context, job


@job("acme.greet")
def greet(ctx: Context, payload: object) -> None:
    """Greet whom the payload names."""
    ctx.logger.info("greeted", extra={"whom": payload})
