// The README's chart, docs/speed.svg: a dot for each sampler's time, on a logarithmic axis, since they are far apart.
const V = 128256;
const settings = [
  ["greedy", "greedy"],
  ["k 50, p .95", "top-k 50, top-p 0.95"],
  ["p .9", "top-p 0.9"],
  ["T alone", "temperature alone"],
];
const samplers = [
  ["quillmate, widest", "Quillmate", "#0f766e"],
  ["llama.cpp", "llama.cpp", "#b45309"],
  ["candle", "candle", "#6d28d9"],
  ["llm-samplers", "llm-samplers", "#9f1239"],
];
const [width, height, left, right, top, bottom] = [760, 280, 170, 30, 74, 236];
const [least, most] = [10, 20000];
const x = (us) => left + ((width - left - right) * Math.log(us / least)) / Math.log(most / least);
const y = (row) => top + 22 + row * 38;
const round = (number) => Number(number.toFixed(1));
const time = (us) => (us < 1000 ? `${us.toFixed(0)} µs` : `${Number((us / 1000).toPrecision(2))} ms`);

/** @param {{ machine: { cpu: string }, results: object[] }} measured benches/results.json */
export function chart({ machine, results }) {
  const median = (setting, path) =>
    results.find((one) => one.where === "native" && one.V === V && one.setting === setting && one.path.startsWith(path)).median_us;
  const text = (at, high, words, more = "") => `<text x="${round(at)}" y="${round(high)}"${more}>${words}</text>`;
  const parts = [
    text(20, 28, `Time to choose a token from ${V.toLocaleString("en")} logits (less is better, logarithmic scale)`, ' font-size="16" font-weight="600"'),
    text(width - right, height - 8, `median on one thread, ${machine.cpu}`, ' text-anchor="end" fill="#57606a"'),
  ];
  for (const [at, [, name, colour]] of samplers.entries()) {
    parts.push(`<circle cx="${left + at * 120}" cy="50" r="6" fill="${colour}"/>`, text(left + at * 120 + 12, 54, name));
  }
  for (let us = least; us < most; us *= 10) {
    parts.push(`<line x1="${round(x(us))}" x2="${round(x(us))}" y1="${top}" y2="${bottom}" stroke="#d0d7de"/>`);
    parts.push(text(x(us), bottom + 18, time(us), ' text-anchor="middle" fill="#57606a"'));
  }
  for (const [row, [setting, name]] of settings.entries()) {
    parts.push(text(left - 16, y(row) + 4, name, ' text-anchor="end"'));
    for (const [path, , colour] of samplers) {
      parts.push(`<circle cx="${round(x(median(setting, path)))}" cy="${y(row)}" r="6" fill="${colour}"/>`);
    }
    const ours = median(setting, samplers[0][0]);
    parts.push(text(x(ours) + 10, y(row) - 8, time(ours), ` fill="${samplers[0][2]}" font-weight="600"`));
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, sans-serif" font-size="13" fill="#1f2328">
<rect width="${width}" height="${height}" rx="6" fill="#ffffff"/>
${parts.join("\n")}
</svg>
`;
}
