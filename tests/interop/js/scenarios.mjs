// What the interop tests do with NATS clients for JavaScript:
// node scenarios.mjs PACKAGE SCENARIO URL [CA]
// Every scenario prints one JSON object a line, the same as the programs for the other clients.

import { once } from "node:events";

const [package_, scenario, url, authority] = process.argv.slice(2);
const nats = await import(package_);
const decoder = new TextDecoder();

const say = (what) => console.log(JSON.stringify(what));

// The packages take credentials as options, not from the URL.
function connect(options = {}) {
  const at = new URL(url);
  const credentials = {};
  if (at.password) {
    credentials.user = at.username;
    credentials.pass = at.password;
  } else if (at.username) {
    credentials.token = at.username;
  }
  return nats.connect({
    servers: at.host,
    reconnect: false,
    timeout: 20000,
    ...credentials,
    ...options,
  });
}

async function take(subscription, count) {
  const messages = [];
  for await (const message of subscription) {
    messages.push(message);
    if (messages.length === count) break;
  }
  return messages;
}

// Everything that the connection reports, as it comes.
async function watch(connection, seen) {
  for await (const status of connection.status()) seen(status);
}

const scenarios = {
  async connect() {
    const connection = await connect();
    await connection.rtt();
    const { max_payload, client_id } = connection.info;
    say({ event: "connected", max_payload, cid: client_id > 0 });
    await connection.close();
    say({ event: "closed", closed: connection.isClosed() });
  },

  async publish() {
    const connection = await connect();
    const wild = connection.subscribe("data.*", { max: 4 });
    const few = connection.subscribe("data.>", { max: 2 });
    for (let number = 0; number < 4; number++) {
      connection.publish(`data.${number}`, String(number).repeat(3));
    }
    for (const [subscription, count] of [[wild, 4], [few, 2]]) {
      for (const message of await take(subscription, count)) {
        say({ subject: message.subject, data: message.string() });
      }
    }
    connection.publish("data.9", "unheard");
    await connection.flush();
    await connection.close();
  },

  async request() {
    const [service, connection] = [await connect(), await connect()];
    service.subscribe("svc.upper", {
      callback: (error, message) => message.respond(message.string().toUpperCase()),
    });
    await service.flush();
    for (const text of ["hello", "again"]) {
      const reply = await connection.request("svc.upper", text, { timeout: 20000 });
      say({ reply: reply.string() });
    }
    await connection.close();
    await service.close();
  },

  async headers() {
    const connection = await connect();
    const subscription = connection.subscribe("head", { max: 3 });
    const two = nats.headers();
    two.set("Bar", "Baz");
    two.set("Some-Key", "a: b");
    const one = nats.headers();
    one.set("Only", "headers");
    connection.publish("head", "body", { headers: two });
    connection.publish("head", "", { headers: one });
    connection.publish("head", "plain");
    for (const message of await take(subscription, 3)) {
      const keys = (message.headers?.keys() ?? []).sort();
      const found = Object.fromEntries(keys.map((key) => [key, message.headers.get(key)]));
      say({ data: decoder.decode(message.data), headers: found });
    }
    await connection.close();
  },

  async queue() {
    const members = [await connect(), await connect()];
    const publisher = await connect();
    const counts = [0, 0];
    await new Promise(async (done) => {
      for (const which of [0, 1]) {
        members[which].subscribe("work", {
          queue: "workers",
          callback: () => {
            counts[which]++;
            if (counts[0] + counts[1] === 200) done();
          },
        });
        await members[which].flush();
      }
      for (let number = 0; number < 200; number++) publisher.publish("work", "x");
    });
    say({ total: counts[0] + counts[1], shared: Math.min(...counts) > 0 });
    for (const connection of [...members, publisher]) await connection.close();
  },

  async nobody() {
    const connection = await connect();
    try {
      await connection.request("nobody.there", "?", { timeout: 20000 });
    } catch (error) {
      if (error.code === "503" || error.isNoResponders?.()) say({ error: "no responders" });
      else throw error;
    }
    await connection.close();
  },

  async drain() {
    const connection = await connect();
    const subscription = connection.subscribe("drain");
    let received = 0;
    const handling = (async () => {
      for await (const message of subscription) received++;
    })();
    for (let number = 0; number < 50; number++) connection.publish("drain", String(number));
    await connection.drain();
    await handling;
    say({ received, closed: connection.isClosed() });
  },

  async reconnect() {
    const connection = await connect({
      reconnect: true,
      reconnectTimeWait: 100,
      maxReconnectAttempts: -1,
    });
    const subscription = connection.subscribe("again", { max: 1 });
    await connection.flush();
    await new Promise((back) => {
      watch(connection, (status) => {
        if (status.type === "disconnect") say({ event: "disconnected" });
        if (status.type === "reconnect") back();
      });
      say({ event: "ready" });
    });
    connection.publish("again", "still here");
    const [message] = await take(subscription, 1);
    say({ event: "reconnected", data: message.string() });
    await connection.close();
  },

  async payload() {
    const connection = await connect();
    const subscription = connection.subscribe("big", { max: 1 });
    const { max_payload } = connection.info;
    try {
      connection.publish("big", new Uint8Array(max_payload + 1));
    } catch (error) {
      if (/max_payload/i.test(`${error.code} ${error.message}`)) say({ error: "max payload" });
      else throw error;
    }
    connection.publish("big", new Uint8Array(max_payload));
    const [message] = await take(subscription, 1);
    say({ size: message.data.length });
    await connection.close();
  },

  async login() {
    let connection;
    try {
      connection = await connect();
    } catch (error) {
      say({ refused: /authorization.violation/i.test(`${error.code} ${error.message}`) });
      return;
    }
    await connection.flush();
    say({ event: "connected" });
    await connection.close();
  },

  async permissions() {
    const connection = await connect();
    const errors = [];
    let wake = () => {};
    watch(connection, (status) => {
      if (status.type !== "error") return;
      errors.push(`${status.permissionContext?.operation ?? ""} ${status.error?.message ?? ""}`);
      wake();
    });
    const next = async () => {
      if (!errors.length) await new Promise((resolve) => (wake = resolve));
      return errors.shift();
    };
    connection.publish("denied", "x");
    say({ violation: /publish/i.test(await next()) });
    connection.subscribe("denied", { callback: () => {} });
    say({ violation: /subscription/i.test(await next()) });
    const subscription = connection.subscribe("allowed", { max: 1 });
    connection.publish("allowed", "y");
    const [message] = await take(subscription, 1);
    say({ data: message.string() });
    await connection.close();
  },

  async tls() {
    const connection = await connect({ tls: { caFile: authority } });
    const subscription = connection.subscribe("secret", { max: 1 });
    connection.publish("secret", new Uint8Array(100000));
    const [message] = await take(subscription, 1);
    say({ size: message.data.length });
    await connection.close();
    try {
      await connect({ tls: {} });
    } catch {
      say({ refused: true });
    }
  },
};

await scenarios[scenario]();
if (process.stdout.writableLength) await once(process.stdout, "drain");
process.exit(0);
