"""``quarterjack serve``: the HTTP API and the console on this machine, with the credentials of whoever starts it."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from quarterjack.cli.installation.banner import configure_logs, show_banner
from quarterjack.cli.shell import Shell, print_json, stop_on_signals
from quarterjack.errors import Misconfigured
from quarterjack.extras import install_remedy
from quarterjack.local.loopback import PORT, listen, new_key, url_of


def serve(
    shell: Shell,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="On loopback; 0: any free one.")] = PORT,
) -> None:
    """Serve the HTTP API and the console on this machine alone, with your AWS credentials. Prints a key for this start.

    It listens on 127.0.0.1. Who sends the printed key as `Authorization: Bearer KEY`, or signs in with it at `/console`, may do what your
    IAM identity and its grants allow. Who sends an API key of a tenant (`quarterjack keys create`) may do what that key says.
    """
    try:
        from quarterjack.console.serving import front_door, server_of  # noqa: PLC0415 (it loads FastAPI, which the other commands do not need)
    except ModuleNotFoundError as problem:
        raise Misconfigured(f"{problem.name} is not installed; {install_remedy('web')}") from None
    at_terminal = configure_logs(shell)
    key = new_key()
    app = front_door(shell.settings, key, reason=shell.reason)

    def on_ready(url: str) -> None:
        if at_terminal:
            show_banner(shell, "api", {"url": url, "document": f"{url}/openapi.json", "console": f"{url}/console/"})
        address = f"{url}/v1/tenants/{shell.settings.tenant}"
        if shell.as_json:
            print_json({"url": url, "key": key, "console": f"{url}/console/"})
            return
        shell.say(f"{url}/console/")
        shell.say(f"{address}/schedules")
        shell.say(f"Authorization: Bearer {key}")

    with (
        closing(listen(port)) as listening,
        stop_on_signals(),
    ):  # uvicorn takes the signals meanwhile, and passes them on at its end
        on_ready(url_of(listening))
        server_of(app).run(sockets=[listening])
