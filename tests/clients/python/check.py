"""What the programs beside this one share: where the cache is, and a comparison that ends with exit code 1."""

import sys
import time

REDIS_PORT, MEMCACHED_PORT = (int(word) for word in sys.argv[1:3])


def check(what, got, wanted):
    """Ends the program unless both are the same."""
    if got != wanted:
        print(f"{what}: {got!r:.300}, and not {wanted!r:.300}")
        sys.exit(1)


def refused(what, kind, ask, text=""):
    """Ends the program unless the question is refused with this kind of exception, whose words hold these."""
    try:
        answer = ask()
    except kind as error:
        check(f"{what}: {error}", text in str(error), True)
    else:
        check(what, answer, kind)


def soon(what, holds, seconds=5):
    """Waits until something holds, and ends the program when it does not."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            check(what, False, True)
        time.sleep(0.01)


def said(line):
    """Says what was compared."""
    print(f"ok: {line}")
