// shrink FILE: makes the wasm that wasm-bindgen left, names and all, as small as it gets when gzipped. In three steps:
//
// 1. A panic here prints nothing and ends in a trap. The functions that put its message together become the trap itself,
//    so that wasm-opt drops their arguments, and all that only served them.
// 2. wasm-opt.
// 3. gzip looks back 32 kB and no further, so functions that are alike become neighbours.
//
// The bar is 128,000 bytes. With all three steps the wasm has 127,448, without step 1 130,131, without step 3 132,599, and
// with wasm-opt alone 134,703. When the code has become so much smaller, remove steps 1 and 3.
//
// The names serve step 1 and are gone from the result, which does not depend on where the checkout is: they hold no paths.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

// Large functions inlined into their only callers make the wasm smaller and its gzip a sixth larger.
const optimize = ["-Os", "--one-caller-inline-max-function-size=24"];

// The ways into a panic, by how their paths, without hashes, begin. None returns: each must be there, and end in a trap.
const panics = [
  "core::panicking::",
  "core::option::expect_failed",
  "core::result::unwrap_failed",
  "core::cell::panic_already_borrowed",
  "core::cell::panic_already_mutably_borrowed",
  "core::cell::lazy::panic_poisoned",
  "core::slice::index::slice_index_fail",
  "core::slice::copy_from_slice_impl::len_mismatch_fail",
  "<alloc::vec::Vec<_, _>>::insert_mut::assert_failed",
  "<alloc::vec::Vec<_, _>>::remove::assert_failed",
  "alloc::raw_vec::capacity_overflow",
  "alloc::raw_vec::handle_error",
  "alloc::alloc::handle_alloc_error",
  "std::thread::local::panic_access_error",
  // Where all others would end.
  "__rustc::rust_begin_unwind",
];
const trap = Buffer.from([0x00, 0x00, 0x0b]); // no locals, unreachable, end

// The binary format: numbers (LEB128), bytes with their length before them, sections. Sections 10 and 0 are code and custom.
const number = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...number(n >>> 7)]);
const sized = (bytes) => Buffer.concat([Buffer.from(number(bytes.length)), bytes]);
const list = (items) => Buffer.concat([Buffer.from(number(items.length)), ...items]);
const section = (id, bytes) => Buffer.concat([Buffer.from([id]), sized(bytes)]);
const reader = (bytes, at = 0) => {
  const read = {
    done: () => at >= bytes.length,
    number: () => (bytes[at] < 128 ? bytes[at++] : (bytes[at++] & 127) + 128 * read.number()),
    sized: () => {
      const length = read.number();
      return bytes.subarray(at, (at += length));
    },
    list: (item) => Array.from({ length: read.number() }, item),
  };
  return read;
};

// A module in parts: its sections, the bodies of its own functions, how many imported ones are counted before them.
const parse = (wasm) => {
  const module = new WebAssembly.Module(wasm);
  const [sections, read] = [[], reader(wasm, 8)];
  while (!read.done()) sections.push({ id: read.number(), bytes: read.sized() });
  const code = reader(sections.find(({ id }) => id === 10).bytes);
  const imported = WebAssembly.Module.imports(module).filter(({ kind }) => kind === "function").length;
  return { module, sections, bodies: code.list(code.sized), imported };
};

// Step 1.
const trapInPanics = (wasm) => {
  const { module, sections, bodies, imported } = parse(wasm);
  const names = reader(Buffer.from(WebAssembly.Module.customSections(module, "name")[0] ?? []));
  const missing = new Set(panics);
  while (!names.done()) {
    const [id, bytes] = [names.number(), names.sized()];
    if (id !== 1) continue; // not the names of functions
    const read = reader(bytes);
    read.list(() => {
      const [at, name] = [read.number() - imported, read.sized().toString()];
      const path = name.replace(/\[[0-9a-f]+\]|::h[0-9a-f]{16}$/g, "");
      const panic = panics.find((start) => path.startsWith(start));
      if (at < 0 || !panic) return;
      if (!bodies[at].subarray(-2).equals(trap.subarray(-2))) throw new Error(`${name} may return`);
      bodies[at] = trap;
      missing.delete(panic);
    });
  }
  if (missing.size > 0) throw new Error(`not in the wasm, and in the list of panics: ${[...missing].join(", ")}`);
  const code = list(bodies.map(sized));
  return Buffer.concat([wasm.subarray(0, 8), ...sections.map(({ id, bytes }) => section(id, id === 10 ? code : bytes))]);
};

// Step 3: names that sort in the order wanted. Next is always the function most like the last ones, the nearest counting most;
// alike is what has the same runs of four bytes.
const nameInOrder = (wasm) => {
  const { bodies, imported } = parse(wasm);
  const having = new Map();
  const runs = bodies.map((body, at) => {
    const own = new Set();
    for (let i = 0; i + 4 <= body.length; i++) own.add(body.readInt32LE(i));
    for (const run of own) {
      if (!having.has(run)) having.set(run, []);
      having.get(run).push(at);
    }
    return own;
  });
  const place = new Map([[0, 0]]); // of each function, the first one's being first
  const alike = new Float64Array(bodies.length);
  let last = 0;
  while (place.size < bodies.length) {
    const shared = new Uint32Array(bodies.length);
    for (const run of runs[last]) for (const at of having.get(run)) shared[at]++;
    let next;
    for (const at of bodies.keys()) {
      alike[at] = 0.8 * alike[at] + shared[at] / Math.sqrt(1 + runs[at].size * runs[last].size);
      if (!place.has(at) && (next === undefined || alike[at] > alike[next])) next = at;
    }
    place.set(next, place.size);
    last = next;
  }
  const name = (at) => Buffer.from(String(place.get(at)).padStart(5, "0"));
  const names = list(bodies.map((_, at) => Buffer.concat([Buffer.from(number(imported + at)), sized(name(at))])));
  return Buffer.concat([wasm, section(0, Buffer.concat([sized(Buffer.from("name")), section(1, names)]))]);
};

// Step 2, and all of them.
const file = process.argv[2];
const wasmOpt = (wasm, ...flags) => {
  writeFileSync(file, wasm);
  execFileSync("wasm-opt", [...optimize, ...flags, file, "-o", file], { stdio: "inherit" });
  return readFileSync(file);
};
const small = wasmOpt(trapInPanics(readFileSync(file)));
// Optimized again, because reading a wasm and writing it undoes some of it.
const last = wasmOpt(nameInOrder(small), "--reorder-functions-by-name", "--strip-producers", "--strip-target-features");
if (parse(last).sections.some(({ id }) => id === 0)) throw new Error("a custom section is left");
