// mutants.mjs PACKAGE SHARE FILES AGAIN OUT CARGO-TEST-ARGUMENTS…: tries the mutants of one package, and says which no test notices.
//
// cargo-mutants lists them; tests/mutants puts them all into one build, each behind a switch. Each test is run once alone to
// see which mutants it reaches; then, for each mutant, the tests that reach it, the quick ones first, until one fails.
// A mutant for which there is no switch (in a constant, or one that does not compile that way) is built and tried by itself.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { appendFileSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";

const [name, share, files, again, out, ...testArguments] = process.argv.slice(2);
const [part, parts] = share.split("/").map(Number);

// Accepted ones are known by their line's text, since its number moves with every edit:
// "src/core/ln.rs: replace < with <=: while numerator < b {".
const accepted = new Map(
  readFileSync(".cargo/mutants-accepted.txt", "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => line.split(" # ")),
);
for (const [mutant, reason] of accepted) if (!reason) throw new Error(`no reason is given for: ${mutant}`);
const texts = new Map();
function named({ file, name, span, function: inside }) {
  if (!texts.has(file)) texts.set(file, readFileSync(file, "utf8").split("\n"));
  const what = name.slice(name.indexOf(": ") + 2).replace(` in ${inside?.function_name}`, "");
  return `${file}: ${what}: ${texts.get(file)[span.start.line - 1].trim()}`;
}
const isAccepted = (id) => accepted.has(named(list[id]));
const most = { maxBuffer: 1 << 30, encoding: "utf8" };

const list = JSON.parse(execFileSync("cargo", ["mutants", "--list", "--json", "--package", name], most));
if (list.length === 0) throw new Error(`${name}: there is no mutant`);

// A copy of the tree, in which the mutants are.
const tree = join(out, "tree");
const switchFile = name === "quillmate-sampler" ? "src/mutant_switch.rs" : "server/src/mutant_switch.rs";
const root = switchFile.replace("mutant_switch", "lib");
const touched = [...new Set(list.map(({ file }) => file)), root];
function copy() {
  const files = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], most).split("\0");
  for (const file of files.filter((file) => file !== "" && existsSync(file)))
    cpSync(file, join(tree, file), { preserveTimestamps: true });
  writeFileSync(join(tree, root), `${readFileSync(root, "utf8")}\n#[allow(missing_docs)]\npub mod mutant_switch;\n`);
  cpSync("tests/mutants/switch.rs", join(tree, switchFile));
}
const originals = () => {
  for (const file of touched) if (file !== root) cpSync(file, join(tree, file));
};
const environment = {
  ...process.env,
  CARGO_TARGET_DIR: join(out, "build"),
  RUSTFLAGS: `${process.env.RUSTFLAGS ?? ""} --cap-lints allow`.trim(),
  CARGO_TERM_COLOR: "never",
};

/** The test programs, or the compiler's errors. A limit of 0 seconds is none. */
function built(more, limit = 0) {
  const args = ["test", "--no-run", "--locked", "--release", "--message-format=json", "--package", name, ...more];
  // A constant that no longer ends is computed by the compiler. `timeout` ends the compiler with cargo.
  const cargo = spawnSync("timeout", [String(limit), "cargo", ...args], { ...most, cwd: tree, env: environment, stdio: ["ignore", "pipe", "pipe"] });
  if (cargo.status === 124) return { endless: true, ok: false, errors: [], programs: [] };
  const messages = cargo.stdout.split("\n").filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
  const errors = messages.filter(({ reason, message }) => reason === "compiler-message" && message.level === "error");
  if (cargo.status !== 0 && errors.length === 0) throw new Error(`cargo failed:\n${cargo.stderr}`);
  const programs = messages.filter(({ reason, executable, profile }) => reason === "compiler-artifact" && executable && profile.test);
  return { ok: cargo.status === 0, errors: errors.map(({ message }) => message), programs: programs.map(({ executable }) => executable) };
}

/** The mutants around an error, or those of the body it is in: an early `return` says what type all of it has. */
function blamed({ spans, children, rendered, code }) {
  const all = [...spans.filter(({ is_primary }) => is_primary), ...spans, ...children.flatMap((child) => child.spans)];
  for (const { file_name, byte_start } of all) {
    if (!touched.includes(file_name)) continue;
    const text = readFileSync(join(tree, file_name)).subarray(0, byte_start).toString();
    const open = [];
    let body;
    for (const { 0: mark, 1: ids, index } of text.matchAll(/\/\*<([\d,]+)\*\/|\/\*>\*\//g)) {
      if (mark === "/*>*/") open.pop();
      else open.push(ids);
      if (mark !== "/*>*/" && text.startsWith("return ", index + mark.length)) body = ids;
    }
    const ids = (open.at(-1) ?? body)?.split(",").map(Number);
    if (ids === undefined) continue;
    // A wrong type in its own text is wrong with or without the switch.
    const alone = open.length > 0 && ids.length === 1 && /^(E0308|E0277|E0369|E0599|E0061|E0433)$/.test(code?.code ?? "");
    return { ids, alone };
  }
  throw new Error(`an error that no mutant explains:\n${rendered}`);
}

// Woven until it compiles.
copy();
const weaver = execFileSync("cargo", ["build", "--quiet", "--release", "--locked", "--manifest-path", "tests/mutants/Cargo.toml", "--target-dir", join(out, "weaver")], most);
if (weaver !== "") console.log(weaver);
const leftOut = new Set();
const unviable = new Set();
let woven, programs;
for (;;) {
  originals();
  writeFileSync(join(out, "left-out.json"), JSON.stringify([...leftOut]));
  const report = JSON.parse(
    execFileSync(join(out, "weaver/release/quillmate-mutants"), [tree, join(out, "left-out.json")], { ...most, input: JSON.stringify(list) }),
  );
  woven = report.woven;
  for (const id of report.invalid) unviable.add(id);
  const build = built(testArguments);
  if (build.ok) {
    programs = build.programs;
    break;
  }
  const before = leftOut.size;
  for (const error of build.errors.filter(({ spans }) => spans.length > 0)) {
    const { ids, alone } = blamed(error);
    for (const id of ids) leftOut.add(id);
    if (alone) unviable.add(ids[0]);
  }
  console.log(`· ${leftOut.size - before} more mutants do not compile behind a switch`);
  if (leftOut.size === before) throw new Error(build.errors.map(({ rendered }) => rendered).join("\n"));
}
const switched = new Set(woven);
const apart = list.map((_, id) => id).filter((id) => !switched.has(id) && !unviable.has(id));
console.log(
  `· ${list.length} mutants: ${switched.size} behind switches in one build, ${unviable.size} do not compile, ${apart.length} by themselves`,
);

/** Runs tests of a program until one fails. True when one did, or when they took too long. */
function fails(program, tests, seconds, more) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, [...tests, "--exact", "--test-threads=2"], {
      cwd: join(tree, name === "quillmate-sampler" ? "." : "server"),
      env: { ...environment, ...more },
      stdio: ["ignore", "pipe", "ignore"],
      detached: true,
    });
    let end = (failed, how) => {
      end = () => {};
      clearTimeout(timer);
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch {
        // It has ended by itself.
      }
      resolve({ failed, how });
    };
    const timer = setTimeout(() => end(true, "time"), seconds * 1000);
    child.stdout.on("data", (text) => / \.\.\. FAILED/.test(text) && end(true, "failed"));
    // A program that does not start has noticed nothing.
    child.on("error", reject);
    child.on("close", (code) => end(code !== 0, code === null ? "signal" : "failed"));
  });
}

async function each(items, work) {
  const queue = [...items];
  await Promise.all(
    Array.from({ length: availableParallelism() }, async () => {
      while (queue.length > 0) await work(queue.shift());
    }),
  );
}

// Which test reaches which mutant, and how long it takes.
const tests = programs.flatMap((program) =>
  execFileSync(program, ["--list", "--format", "terse"], { ...most, cwd: tree, env: environment })
    .split("\n")
    // The test of the example has cargo build it, each time.
    .filter((line) => line.endsWith(": test") && !line.includes("the_example_prints"))
    .map((line) => ({ program, test: line.slice(0, -": test".length), seconds: 0, reached: new Set() })),
);
const reachedFolder = join(out, "reached");
rmSync(reachedFolder, { recursive: true, force: true });
mkdirSync(reachedFolder, { recursive: true });
await each(tests.entries(), async ([number, test]) => {
  const file = join(reachedFolder, String(number));
  const start = performance.now();
  const { failed } = await fails(test.program, [test.test], 1800, { QUILLMATE_MUTANTS_REACHED: file });
  test.seconds = (performance.now() - start) / 1000;
  if (failed) throw new Error(`${test.test} fails without any mutant`);
  if (existsSync(file)) test.reached = new Set(readFileSync(file, "utf8").trim().split("\n").map(Number));
});
const total = tests.reduce((sum, { seconds }) => sum + seconds, 0);
console.log(`· ${tests.length} tests, ${total.toFixed(0)} s one after the other`);

/** The quick tests in one process, then the others one by one. */
async function tried(candidates, more) {
  const ordered = candidates.toSorted((a, b) => a.seconds - b.seconds);
  const groups = [];
  for (const test of ordered) {
    const last = groups.at(-1);
    if (last !== undefined && last.program === test.program && last.seconds + test.seconds < 2) {
      last.tests.push(test.test);
      last.seconds += test.seconds;
    } else groups.push({ program: test.program, tests: [test.test], seconds: test.seconds });
  }
  for (const { program, tests, seconds } of groups) {
    const { failed, how } = await fails(program, tests, 20 + 8 * seconds, more);
    if (failed) return how === "time" ? "timeout" : "caught";
  }
  return "missed";
}

const outcomes = new Map();
const log = join(out, "outcomes.txt");
writeFileSync(log, "");
const start = performance.now();
const say = (id, outcome) => {
  outcomes.set(id, outcome);
  appendFileSync(log, `${outcome} ${list[id].name}\n`);
  if (outcome === "missed" && !isAccepted(id)) console.log(`survived: ${named(list[id])}`);
  if (outcomes.size % 200 === 0) console.log(`· ${outcomes.size} tried, ${((performance.now() - start) / 60_000).toFixed(0)} minutes`);
};
const survivorsFile = join(out, "survivors.txt");
const last = again === "" ? null : new Set(readFileSync(survivorsFile, "utf8").split("\n"));
const mine = (id) => id % parts === part && new RegExp(files).test(list[id].file) && (last?.has(named(list[id])) ?? true);
await each(woven.filter(mine), async (id) =>
  say(id, await tried(tests.filter(({ reached }) => reached.has(id)), { QUILLMATE_MUTANT: String(id) })),
);

// One at a time, in the text itself.
for (const id of [...unviable].filter(mine)) say(id, "unviable");
for (const id of apart.filter(mine)) {
  originals();
  const { file, span, replacement } = list[id];
  const lines = readFileSync(file, "utf8").split("\n");
  const at = ({ line, column }) => lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0) + column - 1;
  const text = lines.join("\n");
  writeFileSync(join(tree, file), text.slice(0, at(span.start)) + replacement + text.slice(at(span.end)));
  const { ok, endless, programs: own } = built(testArguments, 900);
  if (!ok) {
    say(id, endless ? "timeout" : "unviable");
    continue;
  }
  const replaced = new Map(programs.map((program, index) => [program, own[index]]));
  say(id, await tried(tests.map((test) => ({ ...test, program: replaced.get(test.program) })), {}));
}

const count = (outcome) => [...outcomes.values()].filter((other) => other === outcome).length;
const missed = [...outcomes].filter(([, outcome]) => outcome === "missed").map(([id]) => id);
const survivors = missed.filter((id) => !isAccepted(id));
writeFileSync(survivorsFile, missed.map((id) => `${named(list[id])}\n`).join(""));
const noticed = count("caught") + count("timeout");
if (noticed + missed.length === 0) throw new Error(`${name}: no mutant was tried`);
console.log(
  `${name}: ${noticed} of ${noticed + missed.length} mutants noticed (${((100 * noticed) / (noticed + missed.length)).toFixed(1)} %; ` +
    `${count("timeout")} by running too long), ${missed.length - survivors.length} accepted with a reason, ${survivors.length} survived, ` +
    `${count("unviable")} do not compile`,
);
process.exitCode = survivors.length > 0 ? 1 : 0;
