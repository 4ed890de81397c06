// What the interop tests do with nats.js over WebSocket: node websockets.mjs PACKAGE URL...
// Prints one JSON object for each URL.

const [package_, ...urls] = process.argv.slice(2);
// Node.js has WebSocket since 22. Debian 12 has 18.
globalThis.WebSocket ??= (await import("ws")).WebSocket;
const nats = await import(package_);

const COUNT = 200;
const LARGE = 100_000;

async function use(url) {
  const connection = await nats.wsconnect({ servers: url, reconnect: false, timeout: 20000 });
  const numbers = connection.subscribe("numbers", { max: COUNT });
  const large = connection.subscribe("large", { max: 1 });
  connection.subscribe("service", {
    callback: (error, message) => message.respond(`${message.string()}!`),
  });
  const headers = nats.headers();
  headers.set("A", "1");
  for (let number = 0; number < COUNT; number++) {
    connection.publish("numbers", String(number), { headers });
  }
  connection.publish("large", new Uint8Array(LARGE).fill(7));
  const heard = [];
  for await (const message of numbers) heard.push([message.string(), message.headers.get("A")]);
  const sizes = [];
  for await (const message of large) sizes.push(message.data.filter((byte) => byte === 7).length);
  const answer = await connection.request("service", "hello", { timeout: 20000 });
  const isOrdered = heard.every(([text, value], place) => text === String(place) && value === "1");
  const { max_payload, tls_required } = connection.info;
  await connection.drain();
  console.log(
    JSON.stringify({
      count: heard.length,
      isOrdered,
      sizes,
      answer: answer.string(),
      max_payload,
      tls_required: tls_required ?? false,
      closed: connection.isClosed(),
    }),
  );
}

for (const url of urls) await use(url);
process.exit(0);
