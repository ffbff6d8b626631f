// node-redis by RESP2 and RESP3: handshake, commands of one turn as a pipeline, MULTI, scanIterator, pools, timeouts.

const { createClient, createClientPool, ErrorReply } = require("redis");
const { redisPort, check, refused, soon, said, run } = require("./check.js");

const socket = { host: "127.0.0.1", port: redisPort };

async function handshake(client, version) {
  const info = await client.clientInfo();
  check("CLIENT INFO", [info.name, info.resp], ["tried", version]);
  check("PING, ECHO", [await client.ping(), await client.echo("x")], ["PONG", "x"]);
  check("CONFIG GET", { ...(await client.configGet("databases")) }, { databases: "16" });
  said(`handshake by RESP${version}, CLIENT INFO, CONFIG GET`);
}

async function pipelines(client) {
  const numbers = Array.from({ length: 2000 }, (_, index) => index);
  await Promise.all(numbers.map((index) => client.set(`n${index}`, index)));
  const found = await Promise.all(numbers.map((index) => client.get(`n${index}`)));
  check("each answer is that of its command", found.filter((value, index) => value !== String(index)), []);
  check("MULTI", await client.multi().set("p", "1").incrBy("p", 4).expire("p", 9).ttl("p").get("p").exec(), [
    "OK", 5, 1, 9, "5",
  ]);
  const failing = client.multi().set("p", "x").incr("p").get("p");
  const replies = await failing.exec().catch((error) => error.replies);
  check("an error in MULTI", [replies[0], replies[1] instanceof ErrorReply, replies[2]], ["OK", true, "x"]);
  check("as a pipeline", await client.multi().get("p").strLen("p").execAsPipeline(), ["x", 1]);
  await refused("WATCH", client.watch("p"), "WATCH");
  said("2,000 commands at once, MULTI, an error within, WATCH refused");
}

async function values(client) {
  check("SET", await client.set("s", "old", { expiration: { type: "PX", value: 60_000 }, condition: "NX" }), "OK");
  check("SET NX", await client.set("s", "new", { condition: "NX" }), null);
  check("SET GET KEEPTTL", await client.set("s", "new", { GET: true, expiration: "KEEPTTL" }), "old");
  check("PTTL", (await client.pTTL("s")) > 50_000, true);
  check("GETEX", await client.getEx("s", { type: "PX", value: 20 }), "new");
  await soon("expiry", async () => (await client.exists("s")) === 0);
  check("MSET", [await client.mSet({ m1: "a", m2: "b" }), await client.mSetNX({ m2: "c", m3: "d" })], ["OK", 0]);
  check("MGET", await client.mGet(["m1", "m2", "m3"]), ["a", "b", null]);
  const big = "é".repeat(200_000);
  await client.set("big", big);
  check("400 kB", (await client.get("big")) === big, true);
  check("INCRBYFLOAT", Number(await client.incrByFloat("float", 2.5)), 2.5);
  await refused("lists", client.lPush("l", "1"), "unknown command 'LPUSH'");
  said("options of SET, GETEX, MSETNX, MGET, INCRBYFLOAT, 400 kB, errors");
}

async function scans(client) {
  const keys = new Set();
  for await (const some of client.scanIterator({ MATCH: "n*", COUNT: 300, TYPE: "string" })) {
    some.forEach((key) => keys.add(key));
  }
  check("scanIterator", [...keys].sort(), (await client.keys("n*")).sort());
  said(`scanIterator: ${keys.size} keys, each as KEYS says`);
}

async function pool(RESP) {
  const clients = await createClientPool({ socket, RESP, database: 2 }, { minimum: 2, maximum: 4 }).connect();
  await clients.set("count", "0");
  await Promise.all(Array.from({ length: 400 }, () => clients.incr("count")));
  check("increments over a pool", await clients.get("count"), "400");
  clients.destroy();
  said("400 increments over a pool of four connections");
}

run(async () => {
  for (const RESP of [2, 3]) {
    const client = createClient({ socket, RESP, name: "tried", database: 1 });
    client.on("error", (error) => console.log(error.message));
    await client.connect();
    await client.flushAll();
    await handshake(client, RESP);
    await pipelines(client);
    await values(client);
    await scans(client);
    await pool(RESP);
    await client.close();
  }
});
