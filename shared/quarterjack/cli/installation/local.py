"""The API and the console on this machine: ``quarterjack local`` with everything else, ``quarterjack serve`` beside a deployment."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated

import typer

from quarterjack.cli.exits import ExitCode
from quarterjack.cli.installation.banner import configure_logs, show_banner
from quarterjack.cli.shell import Shell, console, print_json, stop_on_signals
from quarterjack.cli.typed import Duration
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.extras import install_remedy
from quarterjack.local.loopback import PORT, listen, new_key, url_of
from quarterjack.local_installations import chosen, export_line
from quarterjack.posix import check_posix


def local(
    shell: Shell,
    seconds: Annotated[
        float | None, Duration(least=1), typer.Option("--for", help="End after this time, e.g. 5m.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(file_okay=False, help="Directory for the state, written about every second.")
    ] = None,
    jobs: Annotated[list[str] | None, typer.Option(help="Package with your own jobs. Repeatable.")] = None,
    *,
    examples: Annotated[bool, typer.Option(help="Create the example schedules.")] = True,
    tickers: Annotated[int, typer.Option(min=1, max=8, help="Number of ticker processes.")] = 1,
    workers: Annotated[int, typer.Option(min=1, max=32, help="Number of worker processes.")] = 2,
    env: Annotated[
        bool,
        typer.Option("--env", help="Print the environment variables of the running installation, for eval, and end."),
    ] = False,
    serve: Annotated[bool, typer.Option("--serve/--no-serve", help="Serve the HTTP API and the console.")] = True,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            help="Loopback port of the API and the console. Default: 8642, or a free one if that is taken.",
        ),
    ] = None,
) -> None:
    """Run everything on this machine: an embedded cloud, a ticker, workers, the API, the console, and example schedules.

    Ends at Ctrl-C, or after --for, with a summary. The exit code is 1 if a fire was missing or double, 5 if the cloud died, or a
    process three times within a minute, and 130 after Ctrl-C during the start.

    With --data the next start continues with that state and the same keys. If the cloud is killed, at most the changes of its last
    seconds are lost.
    """
    if env:
        _show_variables(shell)
        return
    if shell.local is not None:
        remedy = "leave it out, or give --env to print its variables"
        raise InvalidInput(
            "--local", shell.local, "is for commands that use an installation; this one starts one", remedy
        )
    check_posix("quarterjack local")
    if data is not None:
        try:
            (data / "cloud").mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            what = f"cannot hold data ({problem.strerror})"
            raise InvalidInput("--data", str(data), what, "give a directory that you may write, or a new one") from None
    packages = tuple(jobs or filter(None, [shell.settings.jobs]))
    if not (examples or packages):  # no worker would start
        what = "names no package, and without the examples there is no job to run"
        raise InvalidInput("--jobs", None, what, "give --jobs my.package, or leave out --no-examples")
    from quarterjack.local.session import session  # noqa: PLC0415 (it loads boto3, which the other roles do not need)

    options = session.LocalOptions(
        seconds=seconds,
        data=data,
        jobs=packages,
        examples=examples,
        tickers=tickers,
        workers=workers,
        settings=shell.settings,
        serves=serve,
        port=port,
    )
    stop = threading.Event()
    with ExitStack() as signals:
        try:
            session.run(options, console(), stop, on_started=lambda: signals.enter_context(stop_on_signals(stop)))
        except session.UncleanSession as problem:
            shell.say(str(problem), style="red")
            raise typer.Exit(ExitCode.FAILED) from None


def _show_variables(shell: Shell) -> None:
    """The variables of the local installation that ``--local`` chose, or of the only one."""
    one = chosen(shell.local or "")
    shell.answer(dict(one.variables), export_line(one.variables))


def serve(
    shell: Shell,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Loopback port; 0: a free one.")] = PORT,
) -> None:
    """Serve the HTTP API and the console on this machine alone, with your AWS credentials. Prints a key for this start.

    It listens on 127.0.0.1. The printed key, sent as `Authorization: Bearer KEY` or typed at `/console`, allows what your IAM identity
    and its grants allow. An API key of a tenant (`quarterjack keys create`) allows what that key says.
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
