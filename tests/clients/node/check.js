// What the programs beside this one share: where the cache is, and a comparison that ends with exit code 1.

const assert = require("node:assert");

const [redisPort, memcachedPort] = process.argv.slice(2, 4).map(Number);

/** Fails unless both are the same, with types and in depth. */
function check(what, got, wanted) {
  assert.deepStrictEqual(got, wanted, `${what}: ${JSON.stringify(got)}, and not ${JSON.stringify(wanted)}`);
}

/** Fails unless a promise is refused with words that hold these. */
async function refused(what, promise, text) {
  const error = await promise.then(
    (answer) => assert.fail(`${what} is answered with ${answer}`),
    (error) => error,
  );
  assert.ok(String(error).includes(text), `${what}: ${error}`);
}

/** Waits until something holds, and fails when it does not. */
async function soon(what, holds) {
  for (const end = Date.now() + 5000; !(await holds()); ) {
    assert.ok(Date.now() < end, `${what} does not come`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Says what was compared. */
function said(line) {
  console.log(`ok: ${line}`);
}

/** Runs a program, which has a minute. */
function run(main) {
  const late = setTimeout(() => fail(new Error("a minute is over")), 60_000);
  const fail = (error) => {
    console.log(error.message);
    process.exit(1);
  };
  main().then(() => clearTimeout(late), fail);
}

module.exports = { redisPort, memcachedPort, check, refused, soon, said, run };
