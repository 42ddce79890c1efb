// Makes the calls of a plan with grpc-js and prints what came of each; see foreign/calls.py.
//
//     node client.js HOST:PORT < PLAN > RESULTS
import { readFileSync } from "node:fs";
import grpc from "@grpc/grpc-js";

const SIZE_MAX = 16 << 20;
const asIs = (bytes) => bytes;

// Make one call; resolves to its code, text, answers and trailers.
function made(client, one) {
  return new Promise((resolve) => {
    const metadata = new grpc.Metadata();
    for (const [name, value] of Object.entries(one.metadata)) {
      metadata.set(name, name.endsWith("-bin") ? Buffer.from(value) : value);
    }
    const options = { deadline: Date.now() + one.deadline_ms };
    const requests = one.requests.map((text) => Buffer.from(text, "base64"));
    const answers = [];
    const ended = (status) =>
      resolve({
        code: status.code,
        text: status.details ?? "",
        answers,
        trailers: status.metadata?.getMap() ?? {},
      });
    let call;
    if (one.stream) {
      call = client.makeBidiStreamRequest(one.method, asIs, asIs, metadata, options);
      call.on("data", (answer) => {
        answers.push(answer.toString("base64"));
        if (answers.length === one.cancel_after) call.cancel();
      });
      call.on("error", () => {});
      call.on("status", ended);
      for (const request of requests) call.write(request);
      call.end();
    } else {
      const done = (error, answer) => answer && answers.push(answer.toString("base64"));
      call = client.makeUnaryRequest(one.method, asIs, asIs, requests[0], metadata, options, done);
      call.on("status", (status) => setImmediate(ended, status));
    }
    if (one.cancel_ms) setTimeout(() => call.cancel(), one.cancel_ms);
  });
}

function connected(target, compression) {
  return new grpc.Client(target, grpc.credentials.createInsecure(), {
    "grpc.max_receive_message_length": SIZE_MAX,
    "grpc.max_send_message_length": SIZE_MAX,
    "grpc.default_compression_algorithm": compression,
  });
}

const plan = JSON.parse(readFileSync(0, "utf-8"));
const plain = connected(process.argv[2], 0);
const gzip = connected(process.argv[2], 2);
const results = [];
for (const one of plan) {
  const calls = Array.from({ length: one.times }, () => made(one.gzip ? gzip : plain, one));
  const found = await Promise.all(calls);
  const last = found.at(-1);
  results.push({ ...last, name: one.name, codes: found.map((each) => each.code) });
}
console.log(JSON.stringify(results));
plain.close();
gzip.close();
