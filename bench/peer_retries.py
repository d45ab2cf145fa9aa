"""One contestant of bench/retries.py, in an environment of its own: prints the nanoseconds of a retried call that
succeeds at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable


def work() -> int:
    return 1


def by_kfm() -> Callable[[], int]:
    from kfm.retries import retry

    return retry(attempts=5, deadline_s=60)(work)


def by_kfm_guarded() -> Callable[[], int]:
    from kfm.retries import LocalBreaker, LocalBudget, retry

    return retry(attempts=5, deadline_s=60, breaker=LocalBreaker("it"), budget=LocalBudget("it"))(work)


def by_stamina() -> Callable[[], int]:
    import stamina

    return stamina.retry(on=ConnectionError, attempts=5, timeout=60)(work)


def by_tenacity() -> Callable[[], int]:
    import tenacity

    stop = tenacity.stop_after_attempt(5) | tenacity.stop_after_delay(60)
    how = tenacity.retry(
        stop=stop, wait=tenacity.wait_random_exponential(multiplier=0.5, max=60),
        retry=tenacity.retry_if_exception_type(ConnectionError), reraise=True,
    )  # fmt: skip
    return how(work)


MAKERS = {
    "kfm": by_kfm, "kfm with breaker and budget": by_kfm_guarded, "stamina": by_stamina, "tenacity": by_tenacity,
    "no retry": lambda: work,
}  # fmt: skip


def main() -> None:
    call, times = MAKERS[sys.argv[1]](), int(sys.argv[2])
    for _ in range(1000):
        call()
    begun = time.process_time_ns()
    for _ in range(times):
        call()
    print((time.process_time_ns() - begun) / times)


if __name__ == "__main__":
    main()
