// The Node peers of the lock benchmarks.
//   peer.mjs pairs LOCK TARGET         a line on stdin is a time in ns; acquires and
//                                      releases for so long and prints the ns of one pair
//   peer.mjs contend LOCK TARGET START END   monotonic ns; prints "asked got gave" a hold
import fs from "node:fs";
import readline from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { acquireFileLock } from "@openclaw/fs-safe/file-lock";
import { root } from "@openclaw/fs-safe/root";
import properLockfile from "proper-lockfile";

const [mode, kind, target, start, end] = process.argv.slice(2);
const now = () => process.hrtime.bigint();
const dir = target.slice(0, target.lastIndexOf("/"));
const lockRoot = kind === "fs-safe-root" ? await root(dir) : undefined;

async function acquire() {
  if (kind === "proper-lockfile") {
    return properLockfile.lock(target, {
      realpath: false,
      retries: { forever: true, minTimeout: 5, maxTimeout: 25, randomize: true },
    });
  }
  const lock = await acquireFileLock(target, {
    lockRoot,
    retry: { minTimeout: 5, maxTimeout: 25, factor: 1, randomize: true },
    payload: () => ({ pid: process.pid, createdAt: new Date().toISOString() }),
  });
  return () => lock.release();
}

if (mode === "pairs") {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const from = now();
    let pairs = 0n;
    for (; now() - from < BigInt(line); pairs++) await (await acquire())();
    console.log(String((now() - from) / pairs));
  }
} else {
  const holds = [];
  await pause(Math.max(0, Number((BigInt(start) - now()) / 1_000_000n)));
  while (now() < BigInt(end)) {
    const asked = now();
    const release = await acquire();
    const got = now();
    const value = Number(fs.readFileSync(target, "utf8"));
    await pause(1);
    fs.writeFileSync(target, String(value + 1));
    const gave = now();
    await release();
    holds.push(`${asked} ${got} ${gave}`);
    await pause(1);
  }
  console.log(holds.join("\n"));
}
