// A lock user that a test drives: one JSON command a line on stdin, one JSON
// answer a line on stdout. The Go peer of the tests speaks the same.
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { acquireFileLock, acquireFileLockSync } from "@openclaw/fs-safe/file-lock";
import { root } from "@openclaw/fs-safe/root";

const held = new Map();
const questions = new Map();
let nextHandle = 1;

function say(message) {
  fs.writeSync(1, JSON.stringify(message) + "\n");
}

// ask tells the test what a callback was given, and waits for its verdict.
function ask(id, event, detail) {
  return new Promise((resolve) => {
    questions.set(id, resolve);
    say({ id, event, ...detail });
  });
}

async function acquire(command) {
  const options = {
    staleMs: command.staleMs ?? 30_000,
    timeoutMs: command.timeoutMs,
    retry: command.retry ?? { minTimeout: 1, maxTimeout: 10, factor: 2, randomize: true },
    payload: () => command.payload ?? { pid: process.pid, createdAt: new Date().toISOString() },
  };
  if (command.lockPath) options.lockPath = command.lockPath;
  if (command.recover) {
    options.staleRecovery = "remove-if-unchanged";
    options.shouldRemoveStaleLock =
      command.recover === "ask" ? (snapshot) => ask(command.id, "stale", { raw: snapshot.raw }) : () => true;
  }
  if (command.kind !== "raw") options.lockRoot = await root(command.root);
  if (command.kind === "sync") return acquireFileLockSync(command.target, options);
  return acquireFileLock(command.target, options);
}

// section is what must never overlap: the file "inside" is made by whoever is
// in, and the counter loses an update when two are.
async function section(command) {
  fs.closeSync(fs.openSync(command.counter + ".inside", "wx"));
  const value = Number(fs.readFileSync(command.counter, "utf8"));
  await new Promise(setImmediate);
  fs.writeFileSync(command.counter, String(value + 1));
  fs.unlinkSync(command.counter + ".inside");
}

async function count(command) {
  let counted = 0;
  try {
    for (; counted < command.n; counted++) {
      const lock = await acquire(command);
      try {
        await section(command);
      } finally {
        await lock.release();
      }
      await new Promise(setImmediate);
    }
  } catch (error) {
    return { counted, ...failure(error) };
  }
  return { counted };
}

function failure(error) {
  return { code: error.code ?? error.name, message: String(error.message) };
}

const operations = {
  async acquire(command) {
    const lock = await acquire(command);
    held.set(nextHandle, lock);
    return { handle: nextHandle++, lockPath: lock.lockPath };
  },
  async release(command) {
    await held.get(command.handle).release();
    held.delete(command.handle);
    return {};
  },
  async verify(command) {
    return { held: await held.get(command.handle).verifyStillHeld() };
  },
  count,
};

const lines = readline.createInterface({ input: process.stdin });
lines.on("line", async (line) => {
  const command = JSON.parse(line);
  if (command.op === "answer") {
    questions.get(command.id)(command.value);
    return;
  }
  try {
    say({ id: command.id, done: true, ...(await operations[command.op](command)) });
  } catch (error) {
    say({ id: command.id, done: true, ...failure(error) });
  }
});
say({ id: 0, done: true, pid: process.pid, version: version() });

function version() {
  const entry = path.dirname(new URL(import.meta.resolve("@openclaw/fs-safe")).pathname);
  return JSON.parse(fs.readFileSync(path.join(entry, "..", "package.json"), "utf8")).version;
}
