// memcached (npm): conditional stores, cas, many keys at once, types by flags, expiry, errors.

const { promisify } = require("node:util");
const Memcached = require("memcached");
const { memcachedPort, check, refused, soon, said, run } = require("./check.js");

/** The client with promises for callbacks. */
function connect(options) {
  const client = new Memcached(`127.0.0.1:${memcachedPort}`, options);
  const names = ["get", "gets", "getMulti", "set", "add", "replace", "append", "prepend", "cas", "incr", "decr", "del", "touch",
    "flush", "version", "stats", "settings"];
  return { end: () => client.end(), ...Object.fromEntries(names.map((name) => [name, promisify(client[name]).bind(client)])) };
}

async function stores(client) {
  check("set, get", [await client.set("a", "1", 60), await client.get("a"), await client.get("none")], [true, "1", undefined]);
  await refused("add of what is there", client.add("a", "2", 60), "not stored");
  check("add", [await client.add("b", "2", 60), await client.replace("b", "3", 60)], [true, true]);
  await refused("replace of nothing", client.replace("none", "3", 60), "not stored");
  check("append, prepend", [await client.append("a", "4"), await client.prepend("a", "2"), await client.get("a")], [true, true, "214"]);
  await client.set("number", 10, 0);
  check("incr, decr", [await client.incr("number", 5), await client.decr("number", 100)], [15, 0]);
  check("incr of nothing", await client.incr("none", 1), false);
  check("touch", [await client.touch("a", 100), await client.touch("none", 100)], [true, false]);
  check("del", [await client.del("b"), await client.del("b")], [true, false]);
  await client.set("short", "x", 1);
  await soon("expiry", async () => (await client.get("short")) === undefined);
  said("set add replace append prepend incr decr touch del, expiry");
}

async function tokens(client) {
  await client.set("t", "old", 0);
  const { t, cas } = await client.gets("t");
  check("gets", t, "old");
  check("cas", [await client.cas("t", "new", cas, 0), await client.cas("t", "other", cas, 0)], [true, false]);
  check("after cas", await client.get("t"), "new");
  said("gets, cas");
}

async function types(client) {
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, index) => (index * 7) % 256));
  for (const [name, value] of Object.entries({ object: { a: [1, null, "ü"] }, number: 4.5, bytes, text: "größe" })) {
    await client.set(`type-${name}`, value, 0);
    check(name, await client.get(`type-${name}`), value);
  }
  const names = Array.from({ length: 300 }, (_, index) => `many${index}`);
  await Promise.all(names.map((name) => client.set(name, name, 0)));
  const found = await client.getMulti([...names, "none"]);
  check("getMulti", [Object.keys(found).length > 295, Object.entries(found).every(([name, value]) => name === value)], [true, true]);
  said("objects, numbers, bytes and texts by flags; 300 keys at once");
}

async function server(client) {
  const [stats] = await client.stats();
  check("stats", [stats.curr_connections >= 1, stats.get_hits > 0], [true, true]);
  const [settings] = await client.settings();
  check("settings", settings.item_size_max >= 1 << 20, true);
  check("version", (await client.version())[0].version, "1.6.18");
  check("flush", [await client.flush(), await client.get("a")], [[true], undefined]);
  said("stats, settings, version, flush");
}

run(async () => {
  const client = connect({ poolSize: 4, maxValue: 1 << 20, timeout: 10_000 });
  await client.flush();
  await stores(client);
  await tokens(client);
  await types(client);
  await server(client);
  client.end();
});
