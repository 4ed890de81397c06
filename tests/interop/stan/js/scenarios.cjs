// What the interop tests do with node-nats-streaming: node scenarios.cjs URL SCENARIO...
// All scenarios that are named run at the same time, each with clients and channels of its own.
// They print one JSON object a line, the same as the program for the other client; a scenario that
// fails prints why.

const { once } = require("node:events");
const { Session, described, sleep, until } = require("./sessions.cjs");

const all = (options) => options.setDeliverAllAvailable();
const manual = (options) => all(options).setManualAckMode(true);
const durably = (options) => manual(options).setDurableName("d");

const sequences = (messages) => messages.map((each) => each.getSequence());
const sorted = (numbers) => [...numbers].sort((a, b) => a - b);
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// Wait for so many messages that were never sent before, and acknowledge all that come; give
// their sequences, then those of others that came.
async function takeNew(listener, count) {
  const fresh = [];
  const again = new Set();
  while (fresh.length < count) {
    const [message] = await listener.messages(1);
    await listener.ack(message);
    if (message.isRedelivered()) again.add(message.getSequence());
    else fresh.push(message.getSequence());
  }
  return again.size ? [...fresh, sorted(again)] : fresh;
}

const scenarios = {
  async publish(say, url) {
    const session = await Session.open(url, "js-publish");
    await session.publish("js.publish", "0", "1", "2");
    const sending = [];
    for (let number = 3; number < 503; number++) {
      sending.push(session.tryToPublish("js.publish", String(number)));
    }
    const errors = await Promise.all(sending);
    say({ acks: errors.length, errors: errors.filter((each) => each) });
    const listener = await session.subscribe("js.publish", all);
    const expected = Array.from({ length: 503 }, (_, number) => [number + 1, String(number), 0]);
    say({ inOrder: same(await listener.take(503), expected) });
    await session.close();
  },

  async starts(say, url) {
    const session = await Session.open(url, "js-starts");
    await session.publish("js.starts", "1", "2", "3");
    await sleep(4200);
    await session.publish("js.starts", "4", "5");
    const positions = {
      all: [all, 6],
      first: [(options) => options.setStartAtSequence(0), 6],
      sequence: [(options) => options.setStartAtSequence(2), 5],
      last: [(options) => options.setStartWithLastReceived(), 2],
      time: [(options) => options.setStartAtTimeDelta(3100), 3],
      new: [(options) => options, 1],
    };
    const listeners = {};
    for (const [name, [change]] of Object.entries(positions)) {
      listeners[name] = await session.subscribe("js.starts", change);
    }
    await session.publish("js.starts", "6");
    for (const [name, [, count]] of Object.entries(positions)) {
      say({ start: name, got: sequences(await listeners[name].messages(count)) });
    }
    await session.close();
  },

  async durable(say, url) {
    const session = await Session.open(url, "js-durable");
    await session.publish("js.durable", "1", "2", "3");
    const first = await session.subscribe("js.durable", durably);
    const got = await first.messages(3);
    say({ got: got.map(described) });
    say({ twice: await session.tryToSubscribe("js.durable", durably) });
    await first.ack(got[0], got[1]);
    await first.end("close");
    await session.publish("js.durable", "4");
    const second = await session.subscribe("js.durable", durably);
    say({ resumed: await second.take(2) });
    await second.end("unsubscribe");
    const third = await session.subscribe("js.durable", durably);
    say({ fresh: await third.take(4) });
    await session.close();
  },

  async queue(say, url) {
    const session = await Session.open(url, "js-queue");
    const other = await Session.open(url, "js-queue-2");
    const members = [];
    for (const each of [session, session, other]) {
      members.push(await each.subscribe("js.queue", undefined, "q"));
    }
    for (let number = 0; number < 60; number++) await session.publish("js.queue", String(number));
    const got = () => members.flatMap((each) => sequences(each.got));
    await until(() => got().length >= 60);
    await other.settle();
    await session.settle();
    const expected = Array.from({ length: 60 }, (_, number) => number + 1);
    say({
      eachOnce: same(sorted(got()), expected),
      shared: members.every((each) => each.got.length > 0),
    });
    await other.close();
    await session.close();
  },

  async queueLeave(say, url) {
    const session = await Session.open(url, "js-queueLeave");
    const change = (options) => options.setManualAckMode(true);
    const leaver = await session.subscribe("js.queueLeave", change, "q");
    const heir = await session.subscribe("js.queueLeave", change, "q");
    await session.publish("js.queueLeave", "1", "2", "3", "4");
    await until(() => leaver.got.length + heir.got.length === 4);
    const left = sorted(sequences(leaver.got));
    const had = await heir.messages(4 - left.length);
    await leaver.end("unsubscribe");
    const taken = await heir.take(left.length);
    say({ all: sorted([...sequences(had), ...left]) });
    say({
      inherited: same(sorted(taken.map((each) => each[0])), left),
      again: taken.map((each) => each[2]),
    });
    await session.close();
  },

  async durableQueue(say, url) {
    const session = await Session.open(url, "js-durableQueue");
    const other = await Session.open(url, "js-durableQueue-2");
    await session.publish("js.durableQueue", "1", "2");
    const first = await session.subscribe("js.durableQueue", durably, "q");
    const got = await first.messages(2);
    say({ got: got.map(described) });
    await first.ack(got[0]);
    await session.close();
    await other.publish("js.durableQueue", "3");
    const second = await other.subscribe("js.durableQueue", durably, "q");
    say({ resumed: await second.take(2) });
    await second.end("unsubscribe");
    const third = await other.subscribe("js.durableQueue", durably, "q");
    say({ fresh: await third.take(3) });
    await other.close();
  },

  async redelivery(say, url) {
    const session = await Session.open(url, "js-redelivery");
    await session.publish("js.redelivery", "1", "2", "3");
    const listener = await session.subscribe("js.redelivery", (options) =>
      manual(options).setAckWait(1000).setMaxInFlight(2),
    );
    const got = await listener.messages(6);
    say({ got: got.map(described) });
    await listener.ack(got[0], got[1]);
    const fresh = () => listener.got.filter((each) => !each.isRedelivered());
    await until(() => fresh().length > 0);
    say({ then: sequences(fresh()) });
    await session.close();
  },

  async inFlight(say, url) {
    const session = await Session.open(url, "js-inFlight");
    await session.publish("js.inFlight", ..."123456789");
    const listener = await session.subscribe("js.inFlight", (options) =>
      manual(options).setMaxInFlight(4),
    );
    const got = await listener.messages(4);
    say({ got: got.map(described), quiet: await listener.isQuiet() });
    await listener.ack(got[2], got[0]);
    say({ then: await listener.take(2), quiet: await listener.isQuiet() });
    await session.close();
  },

  async refused(say, url) {
    const session = await Session.open(url, "js-refused");
    say({ duplicate: await Session.tryToOpen(url, "js-refused") });
    say({ clientID: await Session.tryToOpen(url, "not valid") });
    say({ publish: await session.tryToPublish("not/valid", "x") });
    say({ subscribe: await session.tryToSubscribe("not.*.valid") });
    const noWait = (options) => options.setAckWait(0);
    say({ start: await session.tryToSubscribe("js.refused", noWait) });
    const noRoom = (options) => options.setMaxInFlight(0);
    say({ inFlight: await session.tryToSubscribe("js.refused", noRoom) });
    const listener = await session.subscribe("js.refused");
    await listener.end("close");
    say({ close: await listener.end("close") });
    session.stan.clientID = "js-nobody";
    say({ gone: await session.close() });
  },

  async replaced(say, url) {
    const first = await Session.open(url, "js-replaced", 3600000);
    first.hang();
    const second = await Session.open(url, "js-replaced", 1000);
    await second.publish("js.replaced", "1");
    say({ publish: await first.tryToPublish("js.replaced", "2") });
    second.hang();
    const third = await Session.open(url, "js-replaced");
    await until(() => second.lost);
    say({ lost: second.lost });
    await third.close();
  },

  async limits(say, url) {
    const session = await Session.open(url, "js-limits");
    await session.publish("limits.few.js", ..."12345");
    const few = await session.subscribe("limits.few.js", all);
    say({ few: sequences(await few.messages(3)) });
    await session.publish("limits.small.js", ...[..."abcde"].map((each) => each.repeat(1000)));
    const small = await session.subscribe("limits.small.js", all);
    say({ small: (await small.messages(3)).map((each) => each.getData()[0]) });
    await session.subscribe("limits.one.js", (options) => options.setDurableName("d"));
    say({ one: await session.tryToSubscribe("limits.one.js") });
    await session.publish("limits.short.js", "x");
    for (let oldest = 1; oldest === 1; ) {
      const short = await session.subscribe("limits.short.js", all);
      await session.publish("limits.short.js", "x");
      oldest = sequences(await short.messages(1))[0];
      await short.end("close");
      await sleep(100);
    }
    say({ short: "gone" });
    await session.close();
  },

  async channels(say, url) {
    const session = await Session.open(url, "js-channels");
    await session.publish("settling", "x");
    let error = "";
    for (let number = 0; number < 100; number++) {
      error = error || (await session.tryToPublish(`js.channels.${number}`, "x"));
    }
    say({ publish: error, subscribe: await session.tryToSubscribe("js.channels.more") });
    await session.publish("settling", "x");
    await session.close();
  },

  async idle(say, url) {
    const session = await Session.open(url, "js-idle");
    await session.publish("idle.js", "1", "2");
    const listener = await session.subscribe("idle.js", (options) =>
      all(options).setDurableName("d"),
    );
    say({ got: await listener.take(2) });
    await session.close();
  },

  async idleAgain(say, url) {
    const session = await Session.open(url, "js-idle");
    await session.publish("idle.js", "new");
    const listener = await session.subscribe("idle.js", durably);
    say({ got: await listener.take(1) });
    await session.close();
  },

  async heartbeats(say, url) {
    const well = await Session.open(url, "js-well");
    const session = await Session.open(url, "js-hangs", 1000);
    await session.publish("js.heartbeats", "1", "2");
    let listener = await session.subscribe("js.heartbeats", durably);
    const got = await listener.messages(2);
    await listener.ack(got[0]);
    session.hang();
    await until(() => session.lost);
    say({ lost: session.lost });
    await well.publish("js.heartbeats", "3");
    const again = await Session.open(url, "js-hangs");
    listener = await again.subscribe("js.heartbeats", durably);
    say({ resumed: await listener.take(2) });
    await again.close();
    await well.close();
  },

  async permissions(say, url) {
    const withUser = (user) => url.replace("//", `//${user}:secret@`);
    const boss = await Session.open(withUser("boss"), "js-boss");
    const shop = await Session.open(withUser("shop"), "js-shop");
    const publish = await shop.tryToPublish("orders.js", "1");
    say({ publish, violation: await shop.violate("prices.js") });
    await boss.publish("prices.js", "p");
    const prices = await shop.subscribe("prices.js", durably);
    say({ got: await prices.take(1), subscribe: await shop.tryToSubscribe("secret.js") });
    for (const how of ["unsubscribe", "close"]) say({ how, error: await prices.end(how) });
    say({ connect: await Session.tryToOpen(withUser("shop"), "js-boss") });
    const thief = await Session.open(withUser("shop"), "js-thief");
    thief.pretend("js-boss");
    say({ publish: await thief.tryToPublish("orders.js", "x") });
    say({ subscribe: await thief.tryToSubscribe("orders.js") });
    say({ close: await thief.close() });
    const orders = await shop.subscribe("orders.js", durably);
    const [message] = await orders.messages(1);
    say({ event: "ready" });
    while (!(await shop.tryToSubscribe("orders.js"))) await sleep(50);
    await boss.publish("orders.js", "2");
    say({ still: await orders.take(1) });
    await orders.ack(message);
    await boss.publish("orders.js", "3");
    const subscribe = await shop.tryToSubscribe("orders.js");
    say({ subscribe, got: sequences(orders.got) });
    shop.errors = [];
    say({ violation: await shop.violate("orders.js") });
    await boss.close();
    await shop.close();
  },

  async shops(say, url) {
    const users = { anna: "apple", warehouse: "walnut", chief: "cherry" };
    const open = (user) =>
      Session.open(url.replace("//", `//${user}:${users[user]}@`), `js-${user}`);
    const [anna, warehouse, chief] = await Promise.all(Object.keys(users).map(open));
    const publish = await anna.tryToPublish("orders.anna", "1");
    say({ publish, bob: await anna.violate("orders.bob") });
    say({ subscribe: await anna.tryToSubscribe("orders.anna") });
    const durable = (options) => all(options).setDurableName("d");
    let listener = await warehouse.subscribe("orders.anna", durable);
    say({ got: await listener.take(1), prices: await warehouse.tryToSubscribe("prices") });
    say({ unsubscribe: await listener.end("unsubscribe") });
    say({ close: await listener.end("close") });
    say({ chief: await chief.tryToPublish("prices", "1") });
    listener = await chief.subscribe("orders.anna", durable);
    say({ got: await listener.take(1), unsubscribe: await listener.end("unsubscribe") });
    for (const each of [anna, warehouse, chief]) await each.close();
  },

  async restart(say, url) {
    const session = await Session.open(url, "js-restart");
    await session.publish("js.restart", "1", "2");
    let single = await session.subscribe("js.restart", durably);
    let group = await session.subscribe("js.restart", durably, "q");
    say({ got: await takeNew(single, 2), group: await takeNew(group, 2) });
    let back = once(session.stan, "reconnect");
    say({ event: "ready" });
    await back;
    await session.publish("js.restart", "3");
    say({ got: await takeNew(single, 1), group: await takeNew(group, 1) });
    await session.close();
    const again = await Session.open(url, "js-restart");
    await again.publish("js.restart", "4");
    back = once(again.stan, "reconnect");
    say({ event: "ready" });
    await back;
    single = await again.subscribe("js.restart", durably);
    group = await again.subscribe("js.restart", durably, "q");
    say({ got: await takeNew(single, 1), group: await takeNew(group, 1) });
    await again.close();
  },

  async killed(say, url) {
    const session = await Session.open(url, "js-killed");
    const acked = new Set();
    let next = 0;
    const send = (count) => {
      for (let sent = 0; sent < count; sent++) {
        const number = next++;
        session.stan.publish("js.killed", String(number), (error) => {
          if (!error) acked.add(number);
        });
      }
    };
    const back = once(session.stan, "reconnect");
    let isConnected = true;
    session.stan.once("disconnect", () => (isConnected = false));
    while (acked.size < 2000) {
      send(50);
      await sleep(1);
    }
    say({ event: "ready" });
    while (isConnected) {
      send(50);
      await sleep(1);
    }
    const many = acked.size >= 2000;
    await back;
    await session.publish("js.killed", "last");
    const listener = await session.subscribe("js.killed", (options) =>
      all(options).setMaxInFlight(100000),
    );
    await until(() => listener.got.some((each) => each.getData() === "last"));
    const got = listener.got.map((each) => each.getData());
    const numbers = got.filter((each) => each !== "last").map(Number);
    const stored = new Set(numbers);
    say({
      lost: [...acked].filter((each) => !stored.has(each)),
      many,
      ordered: same(numbers, sorted(stored)),
      sequences: same(
        sequences(listener.got),
        Array.from({ length: got.length }, (_, place) => place + 1),
      ),
    });
    await session.close();
  },
};

async function run(name, url) {
  const say = (what) => console.log(JSON.stringify({ scenario: name, ...what }));
  try {
    await scenarios[name](say, url);
  } catch (error) {
    say({ failed: error.stack });
  }
}

const [url, ...names] = process.argv.slice(2);
Promise.all(names.map((name) => run(name, url))).then(() => process.exit(0));
