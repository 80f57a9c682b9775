// circles.mjs CRATE…: fails on a circle of files in a crate, and on an import against the order of its rooms.
//
// A file imports another when its code names a path into it: `use crate::wire::frame::Frame`, `super::frame::decode()`,
// `pub use frame::Frame`. The path leads to the file of the innermost module it names. These are no imports: `mod frame;`,
// which only declares a child; comments and their links; `pub(in crate::wire)`; and anything under #[cfg(test)].
//
// A room is a folder or a file directly under `src`. Code imports from its own room and from rooms further down.
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * `names` holds the file in which each crate's name begins: a program names its library so, and `src/kernels` is a package of its own.
 * `order` lists the rooms from the bottom up; rooms between two commas do not import from each other.
 */
export const crates = {
  server: {
    folder: "server/src",
    names: { quillmate_server: "lib.rs" },
    order:
      "hex, hub, lookup < model < constraint, environment, text < store < engine < error < limits, serve, token" +
      " < app, messages < stream < openapi < routes, site < lib < main",
  },
  // Ready for `circles.mjs server sampler` in scripts/test.
  sampler: {
    folder: "src",
    names: { quillmate_kernels: "kernels/lib.rs", quillmate_sampler: "lib.rs" },
    order: "kernels < core < wire < run, legacy < compare < forms, wasm < lib < bin",
  },
};

const TOKEN =
  /\s+|\/\/[^\n]*|[bc]?r(#*)"[^]*?"\1|[bc]?"(?:\\[^]|[^"\\])*"|b?'(?:\\[^][^']*|[^'\\])'|'\w+|(?:r#)?\w+|::|\/\*|[^]/uy;

/** The tokens of Rust code, each with its line, without white space, comments, literals of text, and lifetimes. */
function tokens(text) {
  const found = [];
  let line = 1;
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const start = TOKEN.lastIndex;
    let [token] = TOKEN.exec(text);
    if (token === "/*") {
      // Block comments nest.
      const mark = /\/\*|\*\//g;
      mark.lastIndex = start;
      let depth = 0;
      do depth += mark.exec(text)[0] === "/*" ? 1 : -1;
      while (depth > 0);
      token = text.slice(start, mark.lastIndex);
      TOKEN.lastIndex = mark.lastIndex;
    } else if (/^(?:(?:r#)?\w+|::|[^\s"'/]|\/)$/u.test(token)) {
      found.push({ text: token.replace(/^r#/, ""), line });
    }
    line += token.split("\n").length - 1;
  }
  return found;
}

const OPEN = { "(": ")", "[": "]", "{": "}" };
const CLOSE = new Set(Object.values(OPEN));
const ITEMS = new Set("async const enum extern fn impl macro_rules pub static struct trait type union unsafe use".split(" "));
const isName = (token) => token !== undefined && /^[A-Za-z_]\w*$/.test(token.text);

/** The index after the bracket that closes the one at `at`. */
function afterGroup(code, at) {
  let depth = 0;
  do {
    if (OPEN[code[at].text]) depth += 1;
    else if (CLOSE.has(code[at].text)) depth -= 1;
    at += 1;
  } while (depth > 0);
  return at;
}

/** The index after the item at `at`: behind its `;` or its block. */
function afterItem(code, at) {
  while (at < code.length) {
    if (code[at].text === ";") return at + 1;
    const block = code[at].text === "{";
    at = OPEN[code[at].text] ? afterGroup(code, at) : at + 1;
    if (block) return at;
  }
  return at;
}

/** Whether an attribute's tokens say `cfg(test)` or `cfg(all(…, test, …))`. */
function isOfTests(attribute) {
  const text = attribute.map((token) => token.text).join(" ");
  return /^cfg \( (?:all \( (?:[^()]* , )?)?test(?: ,.*)? \)/.test(text);
}

/** All paths of a `use` tree that begins at `at`, and the index after it. */
function useTree(code, at, prefix) {
  const path = [...prefix];
  const paths = [];
  for (; at < code.length; at += 1) {
    const { text } = code[at];
    if (text === "{") {
      at += 1;
      while (code[at].text !== "}") {
        const [more, after] = useTree(code, at, path);
        paths.push(...more);
        if (!",}".includes(code[after].text)) throw new Error(`line ${code[after].line}: this is no list of imports`);
        at = code[after].text === "," ? after + 1 : after;
      }
      return [paths, at + 1];
    }
    if (text === "as") at += 1;
    else if (text === "," || text === "}" || text === ";") break;
    else if (text !== "::" && text !== "*") path.push(text);
  }
  return [[path], at];
}

/** What a file says: the modules it declares, and the paths its code names, each with the inline module it stands in. */
function read(text) {
  const code = tokens(text);
  const said = { modules: [], paths: [] };
  const block = (at, end, inside) => {
    let tests = false;
    while (at < end) {
      const [token, next] = [code[at], code[at + 1]];
      if (token.text === "#" && (next?.text === "[" || next?.text === "!")) {
        const open = next.text === "!" ? at + 2 : at + 1;
        const after = afterGroup(code, open);
        tests ||= isOfTests(code.slice(open + 1, after - 1));
        at = after;
        continue;
      }
      let declares = at;
      if (code[declares].text === "pub") declares = code[at + 1]?.text === "(" ? afterGroup(code, at + 1) : at + 1;
      if (code[declares]?.text === "mod" && isName(code[declares + 1])) {
        const module = [...inside, code[declares + 1].text];
        const inline = code[declares + 2].text === "{";
        const after = inline ? afterGroup(code, declares + 2) : declares + 3;
        said.modules.push({ module, inline, tests, line: token.line });
        if (inline && !tests) block(declares + 3, after - 1, module);
        at = after;
      } else if (tests && ITEMS.has(token.text)) {
        at = afterItem(code, at);
      } else if (token.text === "use" && next.text !== "<") {
        const [paths, after] = useTree(code, at + 1, []);
        for (const path of paths) said.paths.push({ path, inside, line: token.line });
        at = after;
      } else if (token.text === "pub" && next?.text === "(") {
        at = afterGroup(code, at + 1);
      } else if (isName(token) && next?.text === "::" && code[at - 1]?.text !== "::") {
        const path = [token.text];
        for (at += 1; code[at]?.text === "::" && isName(code[at + 1]); at += 2) path.push(code[at + 1].text);
        said.paths.push({ path, inside, line: token.line });
      } else {
        at += 1;
      }
      tests = false;
    }
  };
  block(0, code.length, []);
  return said;
}

/** The modules of a crate from its root file on. Paths are read once, where the module's file is. */
function load(folder, file) {
  const files = [];
  const open = (path, module, parent, root, tests) => {
    const said = read(readFileSync(join(folder, path), "utf8"));
    const top = { file: path, children: new Map(), parent };
    files.push({ path, module: top, paths: tests ? [] : said.paths, root: root ?? top });
    const isFolder = root === undefined || path.endsWith("mod.rs");
    const children = isFolder ? dirname(path) : path.replace(/\.rs$/, "");
    const modules = new Map([["", top]]);
    for (const { module: names, inline, tests: ofTests, line } of said.modules) {
      const [above, name] = [modules.get(names.slice(0, -1).join("::")), names.at(-1)];
      let child;
      if (inline) {
        child = { file: path, children: new Map(), parent: above };
      } else {
        const places = [`${name}.rs`, `${name}/mod.rs`].map((place) => join(children, ...names.slice(0, -1), place));
        const place = places.find((place) => existsSync(join(folder, place)));
        if (!place) throw new Error(`${join(folder, path)}:${line}: there is neither ${places.join(" nor ")}`);
        child = open(place, names, above, root ?? top, tests || ofTests);
      }
      modules.set(names.join("::"), child);
      above.children.set(name, child);
    }
    files.find((one) => one.path === path).modules = modules;
    return top;
  };
  open(file, [], undefined, undefined, false);
  return files;
}

/** The file a path leads to; undefined if it leads out of the crates that are looked at. */
function resolve({ path, inside }, { modules, root }, names) {
  let module = modules.get(inside.join("::"));
  let [first, ...rest] = path;
  if (first === "crate") module = root;
  else if (first === "super") module = module.parent;
  else if (module.children.has(first)) module = module.children.get(first);
  else if (first !== "self") module = names.get(first);
  for (const name of rest) {
    const next = name === "super" ? module?.parent : name === "self" ? module : module?.children.get(name);
    if (!next) break;
    module = next;
  }
  return module?.file;
}

/** The shortest circle through a file, or undefined. */
function circle(imports, start) {
  const before = new Map();
  const queue = [start];
  for (const file of queue) {
    for (const next of imports.get(file).keys()) {
      if (next === start) {
        const way = [file];
        while (way[0] !== start) way.unshift(before.get(way[0]));
        return way;
      }
      if (before.has(next)) continue;
      before.set(next, file);
      queue.push(next);
    }
  }
  return undefined;
}

function rustFiles(folder) {
  const all = readdirSync(folder, { recursive: true }).map((file) => file.replaceAll("\\", "/"));
  return all.filter((file) => file.endsWith(".rs")).sort();
}

/** What is wrong with the files of a crate, a text for each complaint. */
export function complaints({ folder, names, order }) {
  const all = rustFiles(folder);
  const programs = all.filter((file) => file === "main.rs" || /^bin\/[^/]+\.rs$/.test(file));
  const crates = [...Object.values(names), ...programs].map((file) => load(folder, file));
  const libraries = new Map(Object.keys(names).map((name, at) => [name, crates[at][0].module]));
  const files = crates.flat();
  const found = [];

  const imports = new Map(files.map(({ path }) => [path, new Map()]));
  for (const file of files) {
    for (const named of file.paths) {
      const to = resolve(named, file, libraries);
      if (to === undefined || to === file.path || imports.get(file.path).has(to)) continue;
      imports.get(file.path).set(to, `${join(folder, file.path)}:${named.line}: ${named.path.join("::")}`);
    }
  }
  for (const file of all) if (!imports.has(file)) found.push(`${join(folder, file)} is no module of the crate`);

  // One circle for each file that is in none of those already told.
  const told = new Set();
  for (const { path } of files) {
    const way = told.has(path) ? undefined : circle(imports, path);
    if (!way) continue;
    for (const file of way) told.add(file);
    const steps = way.map((file, at) => `  ${imports.get(file).get(way[(at + 1) % way.length])}`);
    found.push([`a circle of ${way.length} files:`, ...steps].join("\n"));
  }

  const levels = order.split("<").map((level) => level.split(",").map((room) => room.trim()));
  const level = new Map(levels.flatMap((rooms, at) => rooms.map((room) => [room, at])));
  const room = (file) => file.split("/")[0].replace(/\.rs$/, "");
  for (const file of all) if (!level.has(room(file))) found.push(`${join(folder, file)} is in no room of the order`);
  const rooms = new Set(all.map(room));
  for (const one of level.keys()) if (!rooms.has(one)) found.push(`the order names ${one}, which is no room`);
  for (const [file, targets] of imports) {
    for (const [to, where] of targets) {
      const [from, into] = [room(file), room(to)];
      if (from !== into && level.get(from) <= level.get(into)) found.push(`${from} may not import from ${into}:\n  ${where}`);
    }
  }
  return found;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const asked = process.argv.slice(2);
  if (asked.length === 0) throw new Error(`name a crate: ${Object.keys(crates).join(", ")}`);
  process.chdir(join(dirname(fileURLToPath(import.meta.url)), ".."));
  for (const name of asked) {
    if (!crates[name]) throw new Error(`there is no crate ${name} in the table`);
    const found = complaints(crates[name]);
    for (const one of found) console.log(one);
    if (found.length > 0) process.exitCode = 1;
    else console.log(`${name}: no circle of files; every import keeps the order ${crates[name].order}`);
  }
}
