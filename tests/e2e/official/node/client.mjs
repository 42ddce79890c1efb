// RocketMQ's own client for Node.js, as a process of its own; see ../client.py, which does the same.

import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';

const rocketmq = createRequire(`${process.env.OFFICIAL_MODULES}/`)('rocketmq-client-nodejs');
const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = rocketmq;

const TLS = process.env.OFFICIAL_TLS === '1';
const PAUSE_S = 0.02;
const CALL_S = 20;
const KINDS = { tag: 1, sql: 2 };
const COMMIT = 1;
const ROLLBACK = 2;
const UNKNOWN = 0;
const QUIET = { info() {}, warn() {}, error() {}, debug() {}, close() {} };

/** When a command is to end: a promise, and whether it has come. */
class Stop {
  constructor() {
    this.isSet = false;
    this.come = new Promise(resolve => {
      this.set = () => {
        this.isSet = true;
        resolve();
      };
    });
  }

  async within(seconds) {
    await Promise.race([ this.come, new Promise(resolve => setTimeout(resolve, 1000 * seconds)) ]);
    return this.isSet;
  }
}

function told(fields) {
  process.stdout.write(`${JSON.stringify(fields)}\n`);
}

function options(given) {
  const made = {
    endpoints: given.endpoint, namespace: given.namespace ?? '', sslEnabled: TLS, logger: QUIET,
    requestTimeout: 1000 * CALL_S,
  };
  if (given.access_key) {
    made.sessionCredentials = { accessKey: given.access_key, accessSecret: given.secret_key };
  }
  return made;
}

async function producerOf(given, checker) {
  const made = new Producer({ ...options(given), topics: [ given.topic ], topic: given.topic, checker });
  await made.startup();
  return made;
}

function wanted(given) {
  const kind = KINDS[given.kind ?? 'tag'];
  return new Map([[ given.topic, new FilterExpression(given.expression ?? '*', kind) ]]);
}

function message(topic, one) {
  return {
    topic,
    body: Buffer.from(one.body.repeat(one.times ?? 1)),
    tag: one.tag,
    keys: one.keys ?? [],
    messageGroup: one.group,
    priority: one.priority,
    deliveryTimestamp: one.deliver_at_ms ? new Date(one.deliver_at_ms) : undefined,
    properties: new Map(Object.entries(one.properties ?? {})),
  };
}

function seen(got) {
  return {
    topic: got.topic,
    body: got.body.toString(),
    tag: got.tag || null,
    keys: [ ...got.keys ].sort(),
    properties: Object.fromEntries(got.properties),
    message_id: got.messageId,
    attempt: got.deliveryAttempt,
    group: got.messageGroup || null,
    corrupted: got.corrupted ?? false,
    at_ms: Date.now(),
  };
}

async function send(given, tell) {
  const producer = await producerOf(given);
  for (const one of given.messages) {
    const receipt = await producer.send(message(given.topic, one));
    tell({ message_id: receipt.messageId, recall_handle: receipt.recallHandle ?? '' });
  }
  await producer.shutdown();
}

async function recall(given, tell) {
  const producer = await producerOf(given);
  const found = await producer.recallMessage(given.topic, given.recall_handle);
  tell({ message_id: found.messageId });
  await producer.shutdown();
}

async function transact(given, tell, stop) {
  const checker = {
    async check(half) {
      const body = half.body.toString();
      tell({ checked: body, message_id: half.messageId });
      if (body.includes('commit')) return COMMIT;
      return body.includes('roll') ? ROLLBACK : UNKNOWN;
    },
  };
  const producer = await producerOf(given, checker);
  for (const body of given.bodies) {
    const transaction = producer.beginTransaction();
    const receipt = await producer.send(message(given.topic, { body }), transaction);
    tell({ sent: body, message_id: receipt.messageId });
    if (body === 'commit') await transaction.commit();
    if (body === 'roll back') await transaction.rollback();
  }
  await stop.come;
  await producer.shutdown();
}

async function receive(given, tell, stop) {
  const consumer = new SimpleConsumer({
    ...options(given), consumerGroup: given.group, subscriptions: wanted(given), awaitDuration: 2000,
  });
  await consumer.startup();
  let left = given.count;
  while (left > 0 && !stop.isSet) {
    for (const got of await consumer.receive(given.at_once ?? 16, 1000 * (given.invisible_s ?? 15))) {
      tell(seen(got));
      left -= 1;
      const then = given.then ?? 'ack';
      if (then === 'ack') await consumer.ack(got);
      if (then === 'back') await consumer.changeInvisibleDuration(got, 1000);
    }
  }
  await consumer.shutdown();
}

async function push(given, tell, stop) {
  const consumers = [];
  const tries = new Map();
  for (let number = 0; number < (given.consumers ?? 1); number++) {
    const messageListener = {
      async consume(got) {
        tell({ ...seen(got), consumer: `c${number}` });
        tries.set(got.messageId, (tries.get(got.messageId) ?? 0) + 1);
        const failed = tries.get(got.messageId) <= (given.fails ?? 0);
        return failed ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
      },
    };
    consumers.push(new PushConsumer({
      ...options(given), consumerGroup: given.group, subscriptions: wanted(given), messageListener,
    }));
  }
  for (const consumer of consumers) await consumer.startup();
  tell({ started: true });
  await stop.come;
  for (const consumer of consumers) await consumer.shutdown();
}

async function keepSending(given, tell, stop) {
  const producer = await producerOf(given);
  for (let number = given.begin ?? 0; !await stop.within(given.pause_s ?? PAUSE_S); number++) {
    try {
      await producer.send(message(given.topic, { body: `${number}` }));
      tell({ sent: number });
    } catch (error) {
      tell({ failed: number, why: `${error}` });
    }
  }
  await producer.shutdown();
}

const COMMANDS = { send, recall, transact, receive, push, keep_sending: keepSending };
const stops = new Map();

async function carryOut(given, stop) {
  try {
    await COMMANDS[given.do](given, fields => told({ id: given.id, told: fields }), stop);
    told({ id: given.id, done: true });
  } catch (error) {
    told({ id: given.id, failed: `${error}` });
  }
}

createInterface({ input: process.stdin })
  .on('line', line => {
    const given = JSON.parse(line);
    if (given.do === 'stop') return stops.get(given.which).set();
    const stop = new Stop();
    stops.set(given.id, stop);
    carryOut(given, stop);
  })
  .on('close', () => process.exit(0));
