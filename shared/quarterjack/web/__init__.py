"""The HTTP API over the SDK: one ASGI application, which is served alone or mounted. Needs the extra ``web``.

Reading order: ``app`` makes it, ``guard`` sees each request first, ``calls`` finds out who sends it, ``routes`` call the SDK, ``views`` and
``shapes`` are its documents, ``problems`` its errors. No rule lives here: whatever a route refuses, the SDK has refused.
"""

from quarterjack.web.app import create_app
from quarterjack.web.authentication import Access, Actor, ApiKeyAccess, first_of, gateway_access

__all__ = ["Access", "Actor", "ApiKeyAccess", "create_app", "first_of", "gateway_access"]
