"""The console: pages for people over the SDK, rendered on the server. Needs the extra ``web``.

Reading order: ``app`` mounts it beside the API, ``sign_in`` knows a browser again, ``calls`` finds out who asks, ``pages`` call the SDK,
``rendering`` makes HTML of their answers. No rule lives here: whatever a page refuses, the SDK has refused.
"""

from quarterjack.console.app import add_console
from quarterjack.console.sign_in import ApiKeySession, BrowserSession

__all__ = ["ApiKeySession", "BrowserSession", "add_console"]
