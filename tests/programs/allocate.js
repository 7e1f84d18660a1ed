// Allocates buffers, strings and objects in the main thread and in four workers, and prints a
// digest of what it holds at the end. Everything follows from the seed: the digest is a constant.
'use strict';

const crypto = require('crypto');
const zlib = require('zlib');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

function generator(seed) {
  let state = seed >>> 0;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 4294967296) * limit);
  };
}

function work(seed) {
  const random = generator(seed);
  const hash = crypto.createHash('sha256');
  const held = new Map();
  for (let round = 0; round < 60000; round++) {
    const key = random(3000);
    const kind = random(5);
    if (kind === 0) {
      held.set(key, Buffer.alloc(random(20000), round & 255));
    } else if (kind === 1) {
      held.set(key, Buffer.from(String(round).repeat(random(300))));
    } else if (kind === 2) {
      held.set(key, { round, list: Array.from({ length: random(50) }, (_, i) => i * round) });
    } else if (kind === 3 && round % 20 === 0) {
      const packed = zlib.deflateSync(Buffer.alloc(random(50000), String(round)));
      held.set(key, zlib.inflateSync(packed));
    } else {
      held.delete(key);
    }
  }
  for (const key of [...held.keys()].sort((a, b) => a - b)) {
    const value = held.get(key);
    hash.update(`${key}:`);
    hash.update(Buffer.isBuffer(value) ? value : JSON.stringify(value));
  }
  return hash.digest('hex');
}

function inWorker(seed) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: seed });
    worker.once('message', resolve);
    worker.once('error', reject);
  });
}

async function main() {
  const inThreads = Promise.all([1, 2, 3, 4].map(inWorker));
  const own = work(0);
  const all = [own, ...(await inThreads)];
  console.log(crypto.createHash('sha256').update(all.join()).digest('hex'));
}

if (isMainThread) {
  main();
} else {
  parentPort.postMessage(work(workerData));
}
