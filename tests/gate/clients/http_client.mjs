// Asks over HTTP/1.1 with a pool of connections and over HTTP/2 with many streams: http_client.mjs PORT CA_FILE NAME.
// The origin echoes bodies at /echo and says hello elsewhere.

import assert from "node:assert/strict";
import fs from "node:fs";
import http2 from "node:http2";
import https from "node:https";

const [port, file, servername] = process.argv.slice(2);
const ca = fs.readFileSync(file);
const body = Buffer.alloc(300_000, "0123456789");

function collect(stream) {
  return new Promise((resolve, reject) => {
    const pieces = [];
    stream.on("data", (piece) => pieces.push(piece));
    stream.on("end", () => resolve(Buffer.concat(pieces)));
    stream.on("error", reject);
  });
}

const agent = new https.Agent({ keepAlive: true, maxSockets: 8, ca, servername });

async function ask(method, path, content) {
  const request = https.request({ host: "127.0.0.1", port, agent, method, path, headers: { host: servername } });
  const answered = new Promise((resolve, reject) => request.on("response", resolve).on("error", reject));
  request.end(content);
  const answer = await answered;
  return { status: answer.statusCode, body: await collect(answer) };
}

const plain = await Promise.all(Array.from({ length: 100 }, () => ask("GET", "/hello")));
assert(plain.every((answer) => answer.status === 200));
const echoed = await ask("POST", "/echo", body);
assert.equal(echoed.status, 200);
assert(echoed.body.equals(body));
agent.destroy();

const session = http2.connect(`https://127.0.0.1:${port}`, { ca, servername });
session.on("error", (error) => { throw error; });

async function stream(method, path, content) {
  const request = session.request({ ":method": method, ":path": path, ":authority": servername });
  const answered = new Promise((resolve, reject) => request.on("response", resolve).on("error", reject));
  request.end(content);
  const head = await answered;
  return { status: head[":status"], body: await collect(request) };
}

const many = await Promise.all(Array.from({ length: 80 }, () => stream("GET", "/hello")));
assert(many.every((answer) => answer.status === 200));
const back = await Promise.all(Array.from({ length: 8 }, () => stream("POST", "/echo", body)));
assert(back.every((answer) => answer.status === 200 && answer.body.equals(body)));
session.close();
console.log("ok");
