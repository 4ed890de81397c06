// A bucket of one domain, and its mirror in another one, in a leafnode:
// node domains.mjs PACKAGE HUB LEAF

const [package_, hub, leaf] = process.argv.slice(2);
const { connect } = await import(package_);
const PATIENCE = 20000;

const say = (what) => console.log(JSON.stringify(what));
const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));
const open = (url) => connect({ servers: new URL(url).host, timeout: PATIENCE, reconnect: false });

const [there, here] = [await open(hub), await open(leaf)];
const buckets = (connection, options = {}) =>
  connection.jetstream({ timeout: PATIENCE, ...options }).views;

// What watchers of the key "name" see.
const seen = {};
async function watch(bucket, name) {
  seen[name] = [];
  const iterator = await bucket.watch({ key: "name" });
  (async () => {
    for await (const entry of iterator) seen[name].push(entry.string());
  })();
}

async function until(what, isDone) {
  const deadline = Date.now() + PATIENCE;
  while (!(await isDone())) {
    if (Date.now() > deadline) throw new Error(`${what} is not so`);
    await pause(20);
  }
}

// A write goes to the origin, and comes back to a mirror a little later.
async function holds(bucket, key, operation, value) {
  await until(`${key} ${value}`, async () => {
    const entry = await bucket.get(key);
    return entry?.operation === operation && (value === "" || entry.string() === value);
  });
}

async function all(iterator, show) {
  const found = [];
  for await (const each of await iterator) found.push(show(each));
  return found.sort();
}

async function use(bucket, name) {
  const history = await all(bucket.history(), (entry) => entry.key);
  await bucket.put("name", name);
  await holds(bucket, "name", "PUT", name);
  await bucket.put("v", "v");
  await holds(bucket, "v", "PUT", "v");
  await bucket.delete("v");
  await holds(bucket, "v", "DEL", "");
  say({ history, keys: await all(bucket.keys(), (key) => key) });
}

const origin = await buckets(there).kv("TEST");
await watch(origin, "test");
await origin.put("name", "derek");
await origin.put("age", "22");
await origin.put("v", "v");
await origin.delete("v");
await there.flush();

await buckets(here).kv("MIRROR", { mirror: { name: "TEST", domain: "HUB" } });
const manager = await here.jetstreamManager({ timeout: PATIENCE });
const { config } = await manager.streams.info("KV_MIRROR");
const { external, name } = config.mirror;
say({ direct: config.mirror_direct, name, api: external.api });
await until("the mirror", async () => {
  return (await manager.streams.info("KV_MIRROR")).state.messages === 3;
});

const mirror = await buckets(here).kv("MIRROR");
await watch(mirror, "mirror");
await use(mirror, "rip");

const remote = await buckets(here, { domain: "HUB" }).kv("TEST");
say({ prefix: remote.prefix });
await watch(remote, "origin");
await use(remote, "ivan");

await until("the last change", () => Object.values(seen).every((each) => each.at(-1) === "ivan"));
say(seen);
await there.close();
await holds(mirror, "name", "PUT", "ivan");
await here.close();
