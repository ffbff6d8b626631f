// ioredis: ready check by INFO, auto-pipelining, pipelines with MULTI, streams of SCAN, timeouts, reconnects.

const net = require("node:net");
const Redis = require("ioredis");
const { redisPort, check, refused, soon, said, run } = require("./check.js");

async function ready(redis) {
  await new Promise((resolve, reject) => redis.once("ready", resolve).once("error", reject));
  // The client asks INFO before it is ready, and waits while it says `loading:1`.
  check("status", redis.status, "ready");
  check("INFO", (await redis.info()).includes("\r\nloading:0\r\n"), true);
  check("CLIENT GETNAME", await redis.client("GETNAME"), "tried");
  said("ready check by INFO, name of the connection");
}

async function autoPipelining() {
  const redis = new Redis({ port: redisPort, enableAutoPipelining: true });
  const keys = Array.from({ length: 1000 }, (_, index) => `auto${index}`);
  const stored = keys.map((key, index) => redis.set(key, index));
  check("commands that wait to leave together", redis.autoPipelineQueueSize, 1000);
  check("stores", new Set(await Promise.all(stored)), new Set(["OK"]));
  const found = await Promise.all(keys.map((key) => redis.get(key)));
  check("each answer is that of its command", found.filter((value, index) => value !== String(index)), []);
  const mixed = [redis.incr("auto1"), redis.incr("auto-none"), redis.get("auto2"), redis.strlen("auto999")];
  check("mixed", await Promise.all(mixed), [2, 1, "2", 3]);
  redis.disconnect();
  said("auto-pipelining: 2,000 commands in two writes");
}

async function pipelines(redis) {
  check(
    "pipeline",
    await redis.pipeline().set("p", "x").get("p").incr("p").del("p").exec().then(([a, b, [error], d]) => [a, b, error.message, d]),
    [[null, "OK"], [null, "x"], "ERR value is not an integer or out of range", [null, 1]],
  );
  check("MULTI", await redis.multi().set("p", 1).incrby("p", 4).expire("p", 9).ttl("p").exec(), [
    [null, "OK"], [null, 5], [null, 1], [null, 9],
  ]);
  await redis.multi({ pipeline: false });
  check("QUEUED", [await redis.set("p", 7), await redis.get("p")], ["QUEUED", "QUEUED"]);
  check("EXEC", await redis.exec(), [[null, "OK"], [null, "7"]]);
  await redis.multi({ pipeline: false });
  await redis.set("p", 8);
  check("DISCARD", [await redis.discard(), await redis.get("p")], ["OK", "7"]);
  await refused("EXECABORT", redis.multi().set("p").exec(), "EXECABORT");
  said("pipelines, MULTI, EXEC, DISCARD, EXECABORT");
}

async function values(redis) {
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, index) => index % 256));
  await redis.set(Buffer.from([0, 255, 10]), bytes);
  check("bytes", bytes.equals(await redis.getBuffer(Buffer.from([0, 255, 10]))), true);
  check("SET with options", await redis.set("o", 1, "PX", 40, "NX"), "OK");
  check("SET of what is there", await redis.set("o", 2, "NX"), null);
  await soon("expiry", async () => (await redis.get("o")) === null);
  await redis.mset(new Map([["m1", "a"], ["m2", "b"]]));
  check("MGET", await redis.mget("m1", "m2", "m3"), ["a", "b", null]);
  await refused("hashes", redis.hset("h", "a", 1), "unknown command 'hset'");
  await refused("scripts", redis.eval("return 1", 0), "unknown command 'eval'");
  said("bytes, options of SET, MGET, errors");
}

async function scans(redis) {
  const keys = new Set();
  for await (const some of redis.scanStream({ match: "auto*", count: 200 })) {
    some.forEach((key) => keys.add(key));
  }
  check("scanStream", [...keys].sort(), (await redis.keys("auto*")).sort());
  said(`scanStream: ${keys.size} keys, each as KEYS says`);
}

async function troubles(redis) {
  const silent = net.createServer(() => {}).listen(0, "127.0.0.1");
  await new Promise((resolve) => silent.once("listening", resolve));
  const deaf = new Redis({ port: silent.address().port, commandTimeout: 50, enableReadyCheck: false });
  await refused("a silent server", deaf.get("a"), "timed out");
  deaf.disconnect();
  silent.close();
  await redis.set("kept", "1");
  const reconnected = new Promise((resolve) => redis.once("ready", resolve));
  redis.stream.destroy();
  await reconnected;
  check("after a connection that broke", [await redis.get("kept"), await redis.client("GETNAME")], ["1", "tried"]);
  said("timeouts, reconnects");
}

run(async () => {
  const redis = new Redis({ port: redisPort, connectionName: "tried", db: 3 });
  await ready(redis);
  await redis.flushall();
  await autoPipelining();
  await redis.select(0);
  await pipelines(redis);
  await values(redis);
  await scans(redis);
  await troubles(redis);
  check("QUIT", await redis.quit(), "OK");
});
