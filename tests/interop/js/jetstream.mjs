// What the interop tests do with the JetStream of the NATS client for JavaScript:
// node jetstream.mjs PACKAGE SCENARIO URL
// Every scenario prints one JSON object a line, the same as the program for C.

import { once } from "node:events";

const [package_, scenario, url] = process.argv.slice(2);
const { AckPolicy, connect } = await import(package_);
const PATIENCE = 20000;

const say = (what) => console.log(JSON.stringify(what));

const connection = await connect({ servers: new URL(url).host, timeout: PATIENCE });
const manager = await connection.jetstreamManager({ timeout: PATIENCE });
const stream = connection.jetstream({ timeout: PATIENCE });

async function publish(subject, text, options = {}) {
  const { stream: name, seq, duplicate } = await stream.publish(subject, text, options);
  say({ stream: name, seq, duplicate });
}

async function fill() {
  await manager.streams.add({ name: "S", subjects: ["s.>"] });
  await publish("s.a", "zero", { msgID: "id" });
  await publish("s.a", "zero", { msgID: "id" });
  await publish("s.b", "one");
  await publish("s.a", "two");
}

const show = (message) =>
  say({ data: message.string(), seq: message.seq, delivered: message.info.deliveryCount });

const showEntry = (entry) =>
  say({ key: entry.key, value: entry.string(), revision: entry.revision });

const scenarios = {
  async pull() {
    await fill();
    const config = { durable_name: "puller", ack_policy: AckPolicy.Explicit, filter_subject: "s.a" };
    await manager.consumers.add("S", config);
    const consumer = await stream.consumers.get("S", "puller");
    const found = [];
    for await (const message of await consumer.fetch({ max_messages: 2, expires: PATIENCE })) {
      show(message);
      found.push(message);
    }
    await found[0].ackAck();
    found[1].nak();
    const again = await consumer.next({ expires: PATIENCE });
    show(again);
    await again.ackAck();
    const { num_pending, num_ack_pending, ack_floor } = await consumer.info();
    say({ pending: num_pending, unacked: num_ack_pending, floor: ack_floor.stream_seq });
  },

  async ordered() {
    await fill();
    const consumer = await stream.consumers.get("S");
    const messages = await consumer.consume();
    let left = 4;
    for await (const message of messages) {
      show(message);
      left--;
      if (left === 1) await publish("s.c", "later");
      if (left === 0) break;
    }
    await messages.close();
  },

  async keys() {
    const bucket = await stream.views.kv("B", { history: 2 });
    const put = async (key, value) => say({ revision: await bucket.put(key, value) });
    await put("a", "1");
    await put("a", "2");
    await put("a", "3");
    showEntry(await bucket.get("a"));
    const refused = await bucket.update("a", "4", 1).then(() => false, () => true);
    say({ refused });
    for await (const entry of await bucket.history({ key: "a" })) showEntry(entry);
    await put("b", "5");
    await bucket.delete("a");
    for await (const key of await bucket.keys()) say({ key });
    const watcher = await bucket.watch({ key: "b" });
    let isFirst = true;
    for await (const entry of watcher) {
      showEntry(entry);
      if (!isFirst) break;
      isFirst = false;
      await put("b", "6");
    }
  },

  async objects() {
    const store = await stream.views.os("O");
    const content = new Uint8Array(300000).map((_, place) => place % 251);
    const blob = (data) =>
      new ReadableStream({
        start(controller) {
          controller.enqueue(data);
          controller.close();
        },
      });
    const { size, chunks } = await store.put({ name: "big" }, blob(content));
    say({ size, chunks });
    const found = await store.getBlob("big");
    say({ same: Buffer.compare(found, content) === 0 });
    await store.delete("big");
    say({ gone: (await store.get("big")) === null });
    await store.destroy();
  },
};

await scenarios[scenario]();
if (process.stdout.writableLength) await once(process.stdout, "drain");
process.exit(0);
