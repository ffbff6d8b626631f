"""redis-py by RESP2 and RESP3: handshake, pipelines with MULTI, timeouts, scan_iter, locks by SET NX PX."""

import socket
import threading

import redis
from check import REDIS_PORT, check, refused, said, soon
from redis.backoff import NoBackoff
from redis.retry import Retry


def handshake(client, protocol):
    connection = client.connection_pool.get_connection()
    check("proto", int(connection.protocol), protocol)
    client.connection_pool.release(connection)
    info = client.info()
    check("INFO", (info["role"], info["loading"]), ("master", 0))
    own = client.client_info()
    check("CLIENT INFO", (own["name"], int(own["resp"])), ("tried", protocol))
    check("CLIENT LIST", [other["name"] for other in client.client_list()].count("tried") >= 1, True)
    check("CONFIG GET", client.config_get("databases"), {"databases": "16"})
    check("PING, ECHO, TIME", (client.ping(), client.echo("x"), len(client.time())), (True, "x", 2))
    said(f"handshake by RESP{protocol}, INFO, CLIENT INFO and LIST, CONFIG GET")


def values(client):
    client.mset({f"v{index}": index for index in range(100)})
    check("MGET", client.mget([f"v{index}" for index in range(101)]), [str(index) for index in range(100)] + [None])
    check("INCR", (client.incr("v1", 41), client.decr("v1"), client.incrbyfloat("v1", 0.5)), (42, 41, 41.5))
    check("APPEND", (client.append("v2", "34"), client.getrange("v2", 1, -1), client.strlen("v2")), (3, "34", 3))
    check("SET GET", client.set("v3", "new", get=True), "3")
    check("GETDEL, EXISTS", (client.getdel("v3"), client.exists("v3", "v4")), ("new", 1))
    check("EXPIRE", (client.expire("v4", 100, gt=True), client.expire("v4", 100), client.ttl("v4")), (False, True, 100))
    check("PERSIST", (client.persist("v4"), client.pttl("v4"), client.pttl("none")), (True, -1, -2))
    check("GETEX", (client.getex("v5", px=30), client.pttl("v5") <= 30), ("5", True))
    soon("expiry", lambda: client.get("v5") is None)
    large = "0123456789abcdef" * (1 << 16)
    check("a MiB", (client.set("large", large), client.get("large") == large), (True, True))
    refused("WRONGTYPE of nothing", redis.ResponseError, lambda: client.incr("large"), "not an integer")
    refused("lists", redis.ResponseError, lambda: client.lpush("list", 1), "unknown command 'LPUSH'")
    said("MGET, INCR, APPEND, SET GET, EXPIRE, GETEX, values of a MiB, errors")


def pipelines(client):
    with client.pipeline(transaction=True) as pipe:
        pipe.set("p", 1).incr("p").get("p").expire("p", 10).ttl("p")
        check("MULTI", pipe.execute(), [True, 2, "2", True, 10])
        pipe.set("p", "x").incr("p").get("p")
        answers = pipe.execute(raise_on_error=False)
        check("an error in MULTI", (answers[0], type(answers[1]), answers[2]), (True, redis.ResponseError, "x"))
        pipe.set("p", "y").execute_command("NOSUCH")
        refused("EXECABORT", redis.ResponseError, pipe.execute, "unknown command")
    check("nothing of it was done", client.get("p"), "x")
    with client.pipeline(transaction=False) as pipe:
        for index in range(10_000):
            pipe.set(f"many{index}", index)
        check("10,000 stores", pipe.execute(), [True] * 10_000)
    with client.pipeline() as pipe:
        refused("WATCH", redis.ResponseError, lambda: pipe.watch("p"))
    said("pipelines: MULTI, an error within, EXECABORT, 10,000 stores at once, WATCH refused")


def scans(client):
    present = {key for key in client.keys("many*")}
    check("almost all are there", len(present) > 9_950, True)
    check("scan_iter", set(client.scan_iter("many*", count=500)), present)
    check("scan_iter of strings", set(client.scan_iter("many7*", _type="string")), {key for key in present if key[4] == "7"})
    check("scan_iter of lists", list(client.scan_iter(_type="list")), [])
    said(f"scan_iter: {len(present)} keys, each as KEYS says")


def timeouts(protocol):
    """A server that says nothing ends in a timeout, and so does ours, with what it sent used by nobody else."""
    silent = socket.create_server(("127.0.0.1", 0))
    options = {"protocol": protocol, "socket_timeout": 0.05, "retry": Retry(NoBackoff(), 0)}
    deaf = redis.Redis(port=silent.getsockname()[1], **options)
    refused("a silent server", redis.TimeoutError, lambda: deaf.get("t"))
    client = redis.Redis(port=REDIS_PORT, decode_responses=True, **options)
    client.set("t", "right")
    refused("BLPOP does not wait", redis.ResponseError, lambda: client.blpop(["t"], 1), "unknown command")
    check("after it", client.get("t"), "right")
    said("timeouts, and a connection that is good after an error")


def locks(client):
    """Holders exclude each other by SET NX PX; the counter would lose steps otherwise."""
    client.set("count", 0)

    def count(_name):
        for _ in range(25):
            soon("a lock", lambda: client.set("lock", "mine", nx=True, px=5000))
            client.set("count", int(client.get("count")) + 1)
            client.delete("lock")

    threads = [threading.Thread(target=count, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check("steps", client.get("count"), "100")
    lock = client.lock("own", timeout=0.1)
    check("Lock.acquire", (lock.acquire(), client.lock("own").acquire(blocking=False)), (True, False))
    # It is released by a script, and there are none here: it ends with its time.
    refused("Lock.release", redis.ResponseError, lock.release, "unknown command")
    check("another holder, later", client.lock("own", timeout=1).acquire(blocking_timeout=2), True)
    said("locks by SET NX PX of four threads; Lock.acquire, and its end with time")


for version in (2, 3):
    shared = redis.Redis(port=REDIS_PORT, protocol=version, decode_responses=True, client_name="tried")
    shared.flushall()
    handshake(shared, version)
    values(shared)
    pipelines(shared)
    scans(shared)
    timeouts(version)
    locks(shared)
    check("DBSIZE", (shared.flushdb(), shared.dbsize()), (True, 0))
