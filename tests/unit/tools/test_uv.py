"""uv finds packages where pip does."""

from __future__ import annotations

from tools.uv import as_variables


def test_the_sources_of_pip_are_those_of_uv() -> None:
    listed = [
        "global.index-url='https://mirror.example.com/simple'",
        "install.index-url='https://install.example.com/simple'",
        r"global.extra-index-url='\nfile:///srv/one/simple\nfile:///srv/two/simple'",
        "global.find-links='/srv/wheels'",
        ":env:.find-links='/srv/mine /srv/theirs'",
        "global.cert='/etc/ssl/mirror.pem'",
        "global.timeout='60'",
    ]
    assert as_variables(listed) == {
        "UV_DEFAULT_INDEX": "https://install.example.com/simple",
        "UV_INDEX": "file:///srv/one/simple file:///srv/two/simple",
        "UV_FIND_LINKS": "/srv/mine,/srv/theirs",
        "SSL_CERT_FILE": "/etc/ssl/mirror.pem",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_without_a_configuration_uv_takes_its_own_default() -> None:
    assert as_variables([]) == {}
