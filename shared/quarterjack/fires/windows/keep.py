"""Keep the runs of a map's items for longer than the retention, while their parent needs their results."""

from __future__ import annotations

from quarterjack.domain.names import RunRef
from quarterjack.fires.windows.advance import read_window, write_window
from quarterjack.ports.services import Clock, Services
from quarterjack.state.waits.window import MAX_ITEMS
from quarterjack.values import replace

AT_A_CHECK = 2_500  # items that one check of a timer keeps: a hundred requests that write
_PAGE = 100  # items that are read at once


def keep_items(ref: RunRef, services: Services, clock: Clock, *, until: int, since: int, most: int = MAX_ITEMS) -> bool:
    """Keep ended items of a map until an instant (UTC ms), at most so many; whether all are kept.

    ``since`` names the pass over them: the next call with the same one goes on where this one stopped. Raises Unavailable.
    """
    window = read_window(ref, services)
    if window is None:
        return True
    first = window.kept_to if window.kept_since == since else 0
    last = min(first + most, window.cursor)
    for start in range(first, last, _PAGE):
        items = [window.item(number) for number in range(start + 1, min(start + _PAGE, last) + 1)]
        services.waits.prolong(None, items, until=until)
    if last < window.cursor:  # if another process writes the window meanwhile, this part is kept again
        write_window(replace(window, kept_since=since, kept_to=last), services, clock)
    return last == window.cursor
