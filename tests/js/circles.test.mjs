// scripts/circles.mjs: what counts as an import, cycles of files, and the order of the parts.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { complaints } from "../../scripts/circles.mjs";

/** What is wrong with a crate of these files; if not said otherwise, its rooms lie one above the other as `files` has them. */
function check(t, files, order = undefined, names = { made_up: "lib.rs" }) {
  const folder = mkdtempSync(join(tmpdir(), "circles-"));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(join(folder, dirname(file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  }
  const rooms = [...new Set(Object.keys(files).map((file) => file.split("/")[0].replace(".rs", "")))];
  return complaints({ folder, names, order: order ?? rooms.join(" < ") }).map((one) => one.replaceAll(`${folder}/`, ""));
}

const LIB = "mod a; mod b; mod c;";

test("a crate whose imports lead downwards has no complaints", (t) => {
  const files = {
    "a.rs": "pub struct A; impl A { pub fn new<'a>(_: &'a str) -> Self { let _ = ('\\'', '\"', b'\"', 'x'); A } }",
    "b/mod.rs": "mod inner; pub use inner::B;",
    "b/inner.rs": "use crate::a::A; pub struct B(A);",
    "c.rs": "use std::fmt; use crate::{a::A, b::{self as bee, B}}; fn c(_: bee::B) -> A { crate::a::A::new(\"\") }",
    "lib.rs": LIB,
    "main.rs": "use made_up::c; fn main() { c::c() }",
  };
  assert.deepEqual(check(t, files), []);
});

test("comments, texts, tests and visibility are no imports", (t) => {
  const files = {
    "a.rs": `
      //! Used by [b](crate::b) and [crate::c::C].
      /* use crate::b::B; /* nested: use crate::c::C; */ use crate::b::B; */
      pub(in crate::c) fn f() -> &'static str { "use crate::b::B;" }
      fn g() -> &'static str { r#"crate::b::"B""# }
      #[cfg(test)]
      use crate::b::B;
      #[cfg(test)]
      #[allow(unused)]
      fn of_tests(x: [u8; 2]) -> crate::b::B { crate::b::B }
      #[cfg(all(test, feature = "x"))]
      mod tests { use super::*; use crate::c::C; mod deeper { use crate::b::B; } }
      #[cfg(test)]
      mod support;
      fn h(v: &[u8]) -> impl Iterator<Item = &u8> + use<'_> { v.iter() }
    `,
    "a/support.rs": "use crate::c::C;",
    "b.rs": "use crate::a::f; pub struct B;",
    "c.rs": "use crate::b::B; pub struct C;",
    "lib.rs": LIB,
  };
  assert.deepEqual(check(t, files), []);
});

test("what is only for other builds than tests counts", (t) => {
  for (const condition of ["not(test)", 'feature = "test"', 'any(test, feature = "x")', 'all(any(unix, test), feature = "x")']) {
    const a = `#[cfg(${condition})] use crate::b::B; pub struct A;`;
    const files = { "a.rs": a, "b.rs": "use crate::a::A; pub struct B;", "lib.rs": "mod a; mod b;" };
    assert.match(check(t, files)[0], /^a circle of 2 files:/, condition);
  }
});

test("a circle is printed with the import that makes each of its steps", (t) => {
  const files = {
    "a.rs": "use crate::{\n  c::deep::{X, Y},\n};",
    "b.rs": "pub fn b() {\n\n  super::a::f();\n}",
    "c/mod.rs": "pub mod deep;",
    "c/deep.rs": "fn c() { crate::b::b() }",
    "lib.rs": LIB,
  };
  assert.deepEqual(check(t, files, "a, b, c < lib").slice(0, 1), [
    ["a circle of 3 files:", "  a.rs:1: crate::c::deep::X", "  c/deep.rs:1: crate::b::b", "  b.rs:3: super::a::f"].join("\n"),
  ]);
});

test("every way to name a module is seen", (t) => {
  for (const text of [
    "use crate::b;",
    "use crate::b::*;",
    "pub use super::b::B;",
    "use {std::fmt, crate::b as other};",
    "use crate::{b::{self}};",
    "use self::super::b::B;",
    "type T = <crate::b::B as Clone>::Owned;",
    "fn f() { let _ = Vec::<crate::b::B>::new(); }",
    "mod inner { use super::super::b::B; }",
    "mod inner { pub mod more {} fn f() { crate::b::f() } }",
    "fn f() { if true { crate::r#b::f!(); } }",
    "macro_rules! m { () => { $crate::b::f() }; }",
    "#[cfg(test)] fn test() {} fn f() { crate::b::f() }",
    "#[cfg(test)] mod tests {} use crate::b::B;",
    "fn f(x: u8) -> u8 { match x { #[cfg(test)] 0 => 1, _ => crate::b::f() } }",
    "mod c; fn f() { c::f() }",
  ]) {
    const files = { "a.rs": text, "a/c.rs": "use crate::b::B;", "b.rs": "use crate::a::A;", "lib.rs": "mod a; mod b;" };
    if (!text.includes("mod c;")) delete files["a/c.rs"];
    assert.match(check(t, files, "a, b < lib").join("\n"), /^a circle of [23] files:/, text);
  }
});

test("a child that imports from a parent is a circle where the parent imports from it, and not where it declares it", (t) => {
  const child = "use super::A;";
  assert.deepEqual(check(t, { "a/mod.rs": "mod child; pub struct A;", "a/child.rs": child, "lib.rs": "mod a;" }), []);
  for (const parent of ["mod child; pub use child::C;", "mod child; fn f() { child::f() }", "mod child; use self::child::C;"]) {
    const found = check(t, { "a/mod.rs": parent, "a/child.rs": child, "lib.rs": "mod a;" });
    assert.match(found.join("\n"), /^a circle of 2 files:/, parent);
  }
});

test("each circle is told, and each file of it", (t) => {
  const files = {
    "a.rs": "use crate::b::B;",
    "b.rs": "use crate::a::A;",
    "c.rs": "use crate::d::D;",
    "d.rs": "use crate::c::C; use crate::e::E;",
    "e.rs": "use crate::d::D;",
    "lib.rs": "mod a; mod b; mod c; mod d; mod e;",
  };
  const found = check(t, files, "a, b, c, d, e < lib").filter((one) => one.startsWith("a circle"));
  assert.equal(found.length, 3);
  for (const file of ["a", "b", "c", "d", "e"]) assert.ok(found.some((one) => one.includes(`  ${file}.rs:`)), file);
});

test("an import against the order of rooms is refused, also between rooms side by side", (t) => {
  const files = {
    "a.rs": "use crate::b::B;",
    "b/mod.rs": "mod c; mod d;",
    "b/c.rs": "use super::d::D;",
    "b/d.rs": "",
    "lib.rs": "mod a; mod b;",
  };
  assert.deepEqual(check(t, files, "b < a < lib"), []);
  const refused = ["a may not import from b:\n  a.rs:1: crate::b::B"];
  assert.deepEqual(check(t, files, "a < b < lib"), refused);
  assert.deepEqual(check(t, files, "a, b < lib"), refused);
  files["a.rs"] = "use crate::Root;";
  assert.deepEqual(check(t, files, "a, b < lib"), ["a may not import from lib:\n  a.rs:1: crate::Root"]);
});

test("programs name their library, and packages inside the folder each other", (t) => {
  const names = { made_up: "lib.rs", made_up_loops: "loops/lib.rs" };
  const files = {
    "loops/lib.rs": "pub mod rows;",
    "loops/rows.rs": "",
    "a.rs": "use made_up_loops::rows::sum;",
    "lib.rs": "mod a;",
    "bin/tool.rs": "use made_up::Thing; fn main() { crate::helper() } fn helper() {}",
  };
  assert.deepEqual(check(t, files, "loops < a < lib < bin", names), []);
  assert.deepEqual(check(t, files, "a < loops < bin < lib", names), [
    "a may not import from loops:\n  a.rs:1: made_up_loops::rows::sum",
    "bin may not import from lib:\n  bin/tool.rs:1: made_up::Thing",
  ]);
});

test("every file is in a room and in the crate, and every room has a file", (t) => {
  const files = { "a.rs": "", "b.rs": "", "lib.rs": "mod a;" };
  assert.deepEqual(check(t, files, "a < c < lib"), [
    "b.rs is no module of the crate",
    "b.rs is in no room of the order",
    "the order names c, which is no room",
  ]);
});
