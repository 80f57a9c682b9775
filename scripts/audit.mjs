// Licences, duplicates and sources of the npm packages that are shipped: those in the page's bundle (what www depends on) and
// the one inside the npm package (fflate). The licences are held against deny.toml's list.
import { readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const read = (path) => readFileSync(join(root, path), "utf8");
const allowed = new Set([.../^allow = \[([^\]]*)\]/m.exec(read("deny.toml"))[1].matchAll(/"([^"]+)"/g)].map((match) => match[1]));

/** An SPDX expression without parentheses: one of its alternatives must be allowed whole. */
const isAllowed = (expression) =>
  (expression ?? "").split(" OR ").some((one) => one.split(" AND ").every((licence) => allowed.has(licence)));

const shipped = {
  www: (lock) => !lock.dev,
  "scripts/pkg": (_, name) => name === "fflate",
};
const findings = [];
for (const [folder, isShipped] of Object.entries(shipped)) {
  const { packages } = JSON.parse(read(`${folder}/package-lock.json`));
  const versions = new Map();
  for (const [path, lock] of Object.entries(packages)) {
    const [, name] = /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)$/.exec(path) ?? [];
    if (name === undefined || lock.link || !isShipped(lock, name)) continue;
    const one = `${name} ${lock.version} (${folder})`;
    if (!isAllowed(lock.license)) findings.push(`${one}: the licence ${lock.license} is not allowed by deny.toml`);
    if (versions.has(name)) findings.push(`${one}: also there in version ${versions.get(name)}`);
    // Where a lock file names addresses, they have the form of a registry's: no git repository, file or other site.
    if (!/^https:\/\/[^/]+\/.+\/-\/[^/]+\.tgz$/.test(lock.resolved ?? "https://registry/name/-/name.tgz")) {
      findings.push(`${one}: comes from ${lock.resolved}`);
    }
    if (!lock.integrity?.startsWith("sha512-")) findings.push(`${one}: has no SHA-512 in the lock file`);
    versions.set(name, lock.version);
  }
  if (versions.size === 0) findings.push(`${folder}: no shipped package found`);
  console.log(`  ${folder}: ${[...versions].map((one) => one.join(" ")).join(", ")}`);
}
for (const finding of findings) console.error(`  ${finding}`);
process.exit(findings.length > 0 ? 1 : 0);
