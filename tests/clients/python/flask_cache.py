"""Flask-Caching: views, functions and values that are kept in its back ends for Redis and memcached."""

from check import MEMCACHED_PORT, REDIS_PORT, check, said, soon
from flask import Flask
from flask_caching import Cache

CONFIGS = {
    "redis": {
        "CACHE_TYPE": "RedisCache",
        "CACHE_REDIS_URL": f"redis://127.0.0.1:{REDIS_PORT}/2",
        "CACHE_KEY_PREFIX": "flask-",
    },
    "memcached": {
        "CACHE_TYPE": "MemcachedCache",
        "CACHE_MEMCACHED_SERVERS": [f"127.0.0.1:{MEMCACHED_PORT}"],
        "CACHE_KEY_PREFIX": "flask-",
    },
}


def views(app, cache):
    calls = []

    @app.route("/page/<name>")
    @cache.cached(timeout=60, query_string=True)
    def page(name):
        calls.append(name)
        return f"{name} for the {len(calls)}. time"

    @cache.memoize(timeout=1)
    def squared(number):
        calls.append(number)
        return {"square": number * number}

    client = app.test_client()
    pages = [client.get("/page/a?x=1").text, client.get("/page/a?x=1").text, client.get("/page/a?x=2").text]
    check("views", pages, ["a for the 1. time", "a for the 1. time", "a for the 2. time"])
    check("memoize", (squared(7), squared(7), calls.count(7)), ({"square": 49}, {"square": 49}, 1))
    cache.delete_memoized(squared, 7)
    check("delete_memoized", (squared(7), calls.count(7)), ({"square": 49}, 2))
    soon("expiry", lambda: squared(7) and calls.count(7) > 2)


def values(cache):
    check("set, get", (cache.set("a", [1, None]), cache.get("a"), cache.get("none")), (True, [1, None], None))
    check("add", (cache.add("a", 2), cache.add("b", 2), cache.get("b")), (False, True, 2))
    cache.set_many({"c": 3, "d": "vier"})
    check("get_many", cache.get_many("a", "c", "d", "none"), [[1, None], 3, "vier", None])
    check("get_dict", cache.get_dict("c", "d"), {"c": 3, "d": "vier"})
    check("has, delete", (cache.has("c"), cache.delete("c"), cache.has("c")), (True, True, False))
    cache.delete_many("a", "b")
    check("delete_many", cache.get_many("a", "b", "d"), [None, None, "vier"])


for kind, config in CONFIGS.items():
    application = Flask("tried")
    kept = Cache(application, config=config)
    with application.app_context():
        kept.clear()
        views(application, kept)
        values(kept)
        kept.clear()
        check("clear", kept.get("d"), None)
    said(f"Flask-Caching's {kind} back end: cached views, memoize, values, many, clear")
