"""The limit on requests to one host at a time, for all threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PER_HOST = 6  # requests at a time, as many as a browser makes

_news = threading.Condition()
_under_way: dict[str, int] = {}  # by host: its requests that are under way


@contextmanager
def one_request(host: str, most: int) -> Iterator[None]:
    """Wait until fewer than `most` requests to this host are under way, then count one more while the block runs."""
    with _news:
        while _under_way.get(host, 0) >= most:
            _news.wait()
        _under_way[host] = _under_way.get(host, 0) + 1
    try:
        yield
    finally:
        with _news:
            _under_way[host] -= 1
            if not _under_way[host]:
                del _under_way[host]
            _news.notify_all()
