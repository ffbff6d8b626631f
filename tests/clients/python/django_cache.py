"""Django's cache framework: both of its back ends for servers, sessions, and counters, as applications call them."""

import django
from check import MEMCACHED_PORT, REDIS_PORT, check, refused, said, soon
from django.conf import settings

BACKENDS = "django.core.cache.backends"
settings.configure(
    SECRET_KEY="none",
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    SESSION_CACHE_ALIAS="redis",
    CACHES={
        "default": {"BACKEND": f"{BACKENDS}.dummy.DummyCache"},
        "redis": {
            "BACKEND": f"{BACKENDS}.redis.RedisCache",
            "LOCATION": f"redis://127.0.0.1:{REDIS_PORT}/1",
            "KEY_PREFIX": "site",
        },
        "memcached": {
            "BACKEND": f"{BACKENDS}.memcached.PyMemcacheCache",
            "LOCATION": f"127.0.0.1:{MEMCACHED_PORT}",
            "KEY_PREFIX": "site",
        },
    },
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import caches  # noqa: E402


def framework(cache):
    value = {"list": [1, "zwei", None], "bytes": b"\x00\xff"}
    cache.set("object", value)
    check("set, get", (cache.get("object"), cache.get("none", "else")), (value, "else"))
    check("add", (cache.add("object", 1), cache.add("added", 1), cache.get("added")), (False, True, 1))
    check("get_or_set", (cache.get_or_set("made", lambda: 5), cache.get_or_set("made", 6)), (5, 5))
    check("incr, decr", (cache.incr("made", 10), cache.decr("made")), (15, 14))
    refused("incr of nothing", ValueError, lambda: cache.incr("none"))
    many = {f"m{index}": index for index in range(200)}
    check("set_many", cache.set_many(many, timeout=60), [])
    found = cache.get_many([*many, "none"])
    check("get_many", (len(found) > 195, {key: many[key] for key in found} == found), (True, True))
    cache.delete_many(many)
    check("delete_many", cache.get_many(many), {})
    check("delete, has_key", (cache.delete("added"), cache.delete("added"), "added" in cache), (True, False, False))
    check("touch", (cache.touch("made", 100), cache.touch("none", 100)), (True, False))
    cache.set("short", 1, timeout=1)
    check("a timeout", cache.get("short"), 1)
    soon("expiry", lambda: cache.get("short") is None)
    cache.set("over", 1, timeout=0)
    check("a timeout of 0", cache.get("over"), None)
    cache.set("versioned", "one", version=1)
    cache.incr_version("versioned")
    check("versions", (cache.get("versioned"), cache.get("versioned", version=2)), (None, "one"))
    text = "ü" * 300_000
    cache.set("large", text)
    check("600 kB", cache.get("large") == text, True)


def sessions():
    session = SessionStore()
    session["user"] = {"id": 17, "cart": ["a", "b"]}
    session.save()
    again = SessionStore(session_key=session.session_key)
    check("session", again["user"], {"id": 17, "cart": ["a", "b"]})
    again.cycle_key()
    check("cycled", SessionStore(session_key=session.session_key).get("user"), None)
    again.flush()
    said("sessions: stored, read, moved, ended")


for name in ("redis", "memcached"):
    caches[name].clear()
    framework(caches[name])
    said(f"Django's {name} back end: get set add incr many touch delete timeouts versions")
    if name == "redis":
        sessions()
    caches[name].clear()
    check("clear", caches[name].get("object"), None)
