// What the scenarios for node-nats-streaming are made of.

const { once } = require("node:events");
const { setTimeout: sleep } = require("node:timers/promises");
const STAN = require("node-nats-streaming");

const PATIENCE = 40000;

// Wait for something to become true.
async function until(condition) {
  const end = Date.now() + PATIENCE;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`this never came true: ${condition}`);
    await sleep(10);
  }
}

// Wait for one event of an emitter; give the error of another one instead, if that comes first.
function outcome(emitter, good, bad) {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`no ${good} came`)), PATIENCE);
    const end = (error) => {
      clearTimeout(late);
      resolve(error);
    };
    emitter.once(good, () => end(""));
    emitter.once(bad, (error) => end(textOf(error)));
  });
}

function textOf(error) {
  return String((error && error.message) || error);
}

class Session {
  constructor(url, clientID, pingInterval = 5000) {
    this.lost = "";
    this.stan = STAN.connect("test-cluster", clientID, {
      url,
      connectTimeout: PATIENCE,
      ackTimeout: PATIENCE,
      stanPingInterval: pingInterval,
      stanMaxPingOut: 1000,
      reconnect: true,
      maxReconnectAttempts: -1,
      reconnectTimeWait: 100,
    });
    this.errors = [];
    this.stan.nc.on("permission_error", (error) => this.errors.push(textOf(error).toLowerCase()));
    this.stan.on("connection_lost", (error) => (this.lost = textOf(error)));
  }

  // Connect; give the error.
  static async tryToOpen(...all) {
    return outcome(new Session(...all).stan, "connect", "error");
  }

  static async open(...all) {
    const session = new Session(...all);
    const error = await outcome(session.stan, "connect", "error");
    if (error) throw new Error(error);
    return session;
  }

  // Answer no more heartbeats.
  hang() {
    const { nc, hbSubscription } = this.stan;
    nc.subs[hbSubscription].callback = () => {};
  }

  // Close the connection; give the error.
  async close() {
    const closed = once(this.stan, "close");
    this.stan.close();
    const [error] = await closed;
    return error ? textOf(error) : "";
  }

  // Publish one message; give the error.
  tryToPublish(channel, data) {
    return new Promise((resolve) => {
      this.stan.publish(channel, data, (error) => resolve(error ? textOf(error) : ""));
    });
  }

  // Publish where the connection may not publish; give whether it is told so.
  async violate(channel) {
    this.stan.publish(channel, "x");
    await until(() => this.errors.length);
    const subject = `_stan.pub.test-cluster.${channel}`;
    return this.errors.some(
      (each) => each.includes("permissions violation") && each.includes(subject),
    );
  }

  // Speak in the name of another client.
  pretend(clientID) {
    this.stan.clientID = clientID;
    this.stan.connId = Buffer.alloc(0);
  }

  // Publish, each message when the one before is stored.
  async publish(channel, ...data) {
    for (const each of data) {
      const error = await this.tryToPublish(channel, each);
      if (error) throw new Error(error);
    }
  }

  _listener(channel, change, queue) {
    const options = change(this.stan.subscriptionOptions());
    const subscription = queue
      ? this.stan.subscribe(channel, queue, options)
      : this.stan.subscribe(channel, options);
    return new Listener(this, subscription);
  }

  async subscribe(channel, change = (options) => options, queue = undefined) {
    const listener = this._listener(channel, change, queue);
    const error = await outcome(listener.subscription, "ready", "error");
    if (error) throw new Error(error);
    return listener;
  }

  // Subscribe and close; give the error.
  async tryToSubscribe(channel, change = (options) => options) {
    const listener = this._listener(channel, change);
    const error = await outcome(listener.subscription, "ready", "error");
    return error || listener.end("close");
  }

  // Wait until everything that the broker had to send before now has come.
  async settle() {
    await this.publish("settling", "x");
  }

  flush() {
    return new Promise((resolve) => this.stan.nc.flush(resolve));
  }
}

class Listener {
  constructor(session, subscription) {
    this.session = session;
    this.subscription = subscription;
    this.got = [];
    subscription.on("message", (message) => this.got.push(message));
  }

  // Wait for so many messages.
  async messages(count) {
    await until(() => this.got.length >= count);
    return this.got.splice(0, count);
  }

  // The same: sequence, data, how often each was sent again.
  async take(count) {
    return (await this.messages(count)).map(described);
  }

  // Whether nothing more has come.
  async isQuiet() {
    await this.session.settle();
    return this.got.length === 0;
  }

  // Acknowledge messages, and know that it has arrived.
  async ack(...messages) {
    for (const each of messages) each.ack();
    await this.session.flush();
  }

  // Close or unsubscribe; give the error.
  async end(how) {
    const good = how === "close" ? "closed" : "unsubscribed";
    const ended = outcome(this.subscription, good, "error");
    // The client remembers what it has closed, and would not ask again.
    this.subscription.stanConnection = this.session.stan;
    this.subscription[how]();
    return ended;
  }
}

// Sequence, data, and how often a message was sent again.
function described(message) {
  if (message.isRedelivered() !== message.getRedeliveryCount() > 0) throw new Error("no count");
  return [message.getSequence(), message.getData(), message.getRedeliveryCount()];
}

module.exports = { PATIENCE, Session, described, outcome, sleep, until };
