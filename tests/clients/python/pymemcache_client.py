"""pymemcache: stores and conditions, cas, many keys at once, serialised values, pools, expiry, errors."""

import threading

from check import MEMCACHED_PORT, check, refused, said, soon
from pymemcache import serde
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.client.retrying import RetryingClient
from pymemcache.exceptions import MemcacheClientError, MemcacheIllegalInputError, MemcacheServerError

PLACE = ("127.0.0.1", MEMCACHED_PORT)


def stores(client):
    check("set, get", (client.set("a", b"1"), client.get("a"), client.get("none", "else")), (True, b"1", "else"))
    check("add", (client.add("a", b"2"), client.add("b", b"2")), (False, True))
    check("replace", (client.replace("a", b"3"), client.replace("c", b"3")), (True, False))
    check("append, prepend", (client.append("a", b"4"), client.prepend("a", b"2"), client.get("a")), (True, True, b"234"))
    check("incr, decr", (client.incr("a", 6), client.decr("a", 1000), client.incr("none", 1)), (240, 0, None))
    check("delete", (client.delete("b"), client.delete("b"), client.get("b")), (True, False, None))
    check("touch", (client.touch("a", 100), client.touch("b", 100)), (True, False))
    value, token = client.gets("a")
    check("gets, cas", (value, client.cas("a", b"new", token), client.cas("a", b"other", token)), (b"0", True, False))
    check("cas of nothing", client.cas("none", b"x", b"1"), None)
    client.set("short", b"x", expire=1)
    soon("expiry", lambda: client.get("short") is None)
    check("an expiry that is over", (client.set("short", b"x", expire=-1), client.get("short")), (True, None))
    large = bytes(range(256)) * 4000
    check("a MB", (client.set("large", large), client.get("large") == large), (True, True))
    said("set add replace append prepend incr decr delete touch gets cas, expiry, a MB")


def many(client):
    values = {f"m{index}": b"%d" % index for index in range(500)}
    check("set_many", client.set_many(values, noreply=False), [])
    found = client.get_many(list(values))
    check("get_many", (len(found) > 490, {key: values[key] for key in found} == found), (True, True))
    tokens = client.gets_many(["m1", "m2", "none"])
    check("gets_many", sorted(tokens), ["m1", "m2"])
    check("cas by a token of many", client.cas("m1", b"x", tokens["m1"][1]), True)
    check("delete_many", (client.delete_many(list(values), noreply=False), client.get_many(["m1", "m499"])), (True, {}))
    said("set_many, get_many, gets_many, delete_many")


def mistakes(client):
    refused("a key of 251 bytes", MemcacheIllegalInputError, lambda: client.get("k" * 251))
    refused("a key with a blank", MemcacheIllegalInputError, lambda: client.get("a b"))
    client.set("word", b"word")
    refused("incr of a word", MemcacheClientError, lambda: client.incr("word", 1), "non-numeric")
    refused("17 MiB", MemcacheServerError, lambda: client.set("huge", b"x" * (17 << 20)), "too large")
    check("after it", (client.get("huge"), client.get("word")), (None, b"word"))
    check("version", client.version().startswith(b"1.6"), True)
    stats = client.stats()
    check("stats", stats[b"curr_connections"] >= 1 and stats[b"get_hits"] > 0, True)
    check("stats settings", client.stats("settings")[b"item_size_max"] >= 1 << 20, True)
    said("errors, after which the connection is good; version, stats")


def objects():
    client = Client(PLACE, serde=serde.compressed_serde, encoding="utf-8", allow_unicode_keys=True)
    for name, value in (("dict", {"a": [1, 2.5, None]}), ("int", 7), ("text", "grüße"), ("long", "x" * 10_000)):
        check(name, (client.set(f"größe-{name}", value), client.get(f"größe-{name}")), (True, value))
    said("serialised and compressed values by flags, keys in UTF-8")


def pools():
    client = RetryingClient(PooledClient(PLACE, max_pool_size=8, timeout=5), attempts=2)
    client.set("counter", b"0")
    threads = [threading.Thread(target=lambda: [client.incr("counter", 1) for _ in range(250)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check("increments of 8 threads", client.get("counter"), b"2000")
    ring = HashClient([PLACE], use_pooling=True)
    ring.set_many({"r1": b"1", "r2": b"2"})
    check("HashClient", ring.get_many(["r1", "r2", "r3"]), {"r1": b"1", "r2": b"2"})
    said("2,000 increments by 8 threads over a pool, HashClient")


plain = Client(PLACE, default_noreply=False, timeout=10)
plain.flush_all()
stores(plain)
many(plain)
mistakes(plain)
objects()
pools()
check("flush_all", (plain.flush_all(), plain.get("a")), (True, None))
