"use strict";
// The overview: curves of a run, figures side by side, the journal.

const PANELS = [
  ["Reward, and spread in a group", ["reward"]],
  ["The reward's parts", ["tool_syntax", "content", "layout"]],
  ["Score, 0 to 100", ["score"]],
  ["Rates", ["submit_rate", "layout_pass", "failed_share", "judged"]],
  ["Judge, −1 to +1", /^verdict_/],
  ["Lines of the final document", ["lines"]],
  ["Calls an episode", ["turns", "edits", "failed_edits", "malformed"]],
  ["Entropy, nats a token", ["entropy"]],
  ["Size of the gradient", ["gradient_norm"]],
  ["Gap of sampler and trainer", ["gap"]],
];
const WIDTH = 360, HEIGHT = 190, LEFT = 44, RIGHT = 10, TOP = 10, BOTTOM = 24;
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 4", "1 4", "12 4"];

function overviewPage() {
  const run = index.kind === "run";
  return [
    h("h1", {}, (run ? "Run " : "Evaluation "), plain(index.name)),
    index.notes.map((note) => h("p", { class: "note" }, plain(note))),
    leftOut(),
    facts(),
    run ? curves() : null,
    run ? null : [h("h2", {}, "Rewards"), h("div", { class: "grid" }, histograms())],
    figures(run ? "On held-out tasks" : "Figures of each agent", index.figures),
    run ? null : [figures("Statistics", index.statistics), comparisons()],
    journal(),
    settings(),
  ];
}

function leftOut() {
  if (!isExported) return null;
  const missing = index.episodes.filter((one) => !one.kept).length;
  const share = missing ? ", and " + missing + " of " + index.episodes.length + " episodes beyond their row in the table" : "";
  return h("p", { class: "note" }, "An exported file. Left out: log-probabilities of tokens" + share + ".");
}

function facts() {
  const settings = index.settings, all = index.episodes;
  const told = [
    ["episodes", all.length], ["tasks", new Set(all.map((one) => one.task)).size],
    ["steps", index.metrics.length || null], ["environment", settings.env], ["model", settings.model],
    ["judge", typeof settings.judge === "string" ? settings.judge : JSON.stringify(settings.judge)],
    ["split", settings.split], ["seed", settings.seed],
  ].filter(([, value]) => known(value));
  return h("ul", { class: "facts" }, told.map(([name, value]) => h("li", {}, h("b", {}, plain(value)), " ", h("span", { class: "muted" }, name))));
}

// --- curves -------------------------------------------------------------------------------------

function curves() {
  const metrics = index.metrics;
  if (!metrics.length) return h("p", { class: "muted" }, "No step has ended yet.");
  const names = [...new Set(metrics.flatMap((one) => Object.keys(one)))];
  const of = (wanted) => (wanted instanceof RegExp ? names.filter((one) => wanted.test(one)) : wanted.filter((one) => names.includes(one)));
  const panels = PANELS.map(([title, wanted]) => [title, of(wanted)]).filter(([, lines]) => lines.length);
  const drawn = new Set(["step", "reward_std", ...panels.flatMap(([, lines]) => lines)]);
  const rest = names.filter((one) => !drawn.has(one));
  const others = h("details", {}, h("summary", {}, "All other figures (" + rest.length + ")"));
  // drawn when they are wanted
  others.addEventListener("toggle", () => others.append(h("div", { class: "grid" }, rest.map((one) => chart(words(one), [one])))), { once: true });
  return [h("h2", {}, "Curves"), h("div", { class: "grid" }, panels.map(([title, lines]) => chart(title, lines))), rest.length ? others : null];
}

// Not Math.min(...values): a long run has more values than a call takes arguments.
const extent = (values) => values.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]);

function ticks(low, high) {
  const raw = (high - low) / 4, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= raw);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(Math.abs(at) < step / 1e6 ? 0 : at);
  return found;
}

const label = (metric) => words(metric.replace(/^verdict_/, ""));

function chart(title, lines) {
  const series = lines.map((name) => ({ name, points: index.metrics.filter((one) => typeof one[name] === "number").map((one) => [one.step, one[name], one]) }));
  const points = series.flatMap((one) => one.points);
  const band = lines[0] === "reward" ? points.filter(([, , one]) => typeof one.reward_std === "number") : [];
  const values = [...points.map((one) => one[1]), ...band.flatMap(([, y, one]) => [y - one.reward_std, y + one.reward_std])];
  const steps = points.map((one) => one[0]);
  let [low, high] = extent(values);
  if (low === high) { low -= Math.abs(low) / 10 || 1; high += Math.abs(high) / 10 || 1; }
  const [first, last] = extent(steps);
  const x = (step) => LEFT + (WIDTH - LEFT - RIGHT) * (last > first ? (step - first) / (last - first) : 0.5);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (high - low));
  const path = (some) => some.map(([a, b], place) => (place ? "L" : "M") + x(a).toFixed(1) + " " + y(b).toFixed(1)).join("");
  const svg = s("svg", { viewBox: "0 0 " + WIDTH + " " + HEIGHT, role: "img", tabindex: 0, "aria-label": inWords(title, series) });
  for (const at of ticks(low, high)) {
    svg.append(s("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(at), y2: y(at) }), s("text", { x: LEFT - 6, y: y(at) + 4, "text-anchor": "end" }, number(at)));
  }
  const marks = last > first ? ticks(first, last).filter(Number.isInteger) : [first];
  for (const at of marks) svg.append(s("text", { x: x(at), y: HEIGHT - 6, "text-anchor": "middle" }, number(at)));
  if (band.length > 1) {
    const edge = [...band.map(([a, b, one]) => [a, b + one.reward_std]), ...band.map(([a, b, one]) => [a, b - one.reward_std]).reverse()];
    svg.append(s("path", { d: path(edge) + "Z", fill: "var(--c0)", opacity: 0.15 }));
  }
  series.forEach((one, place) => {
    const colour = "var(--c" + (place % 7) + ")";
    if (one.points.length === 1) svg.append(s("circle", { cx: x(one.points[0][0]), cy: y(one.points[0][1]), r: 3, fill: colour }));
    svg.append(s("path", { d: path(one.points), fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": DASHES[place % 7] }));
  });
  const legend = h("ul", { class: "legend" });
  const cursor = s("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
  svg.append(cursor);
  const steady = [...new Set(steps)].sort((a, b) => a - b);
  let at = steady.length - 1;
  function read(place, aloud) {
    at = Math.max(0, Math.min(steady.length - 1, place));
    const here = x(steady[at]);
    cursor.setAttribute("x1", aloud === null ? -9 : here);
    cursor.setAttribute("x2", aloud === null ? -9 : here);
    const told = series.map((one) => [one.name, one.points.find((point) => point[0] === steady[at])]);
    legend.replaceChildren(h("li", { class: "muted" }, "step " + steady[at]), ...told.map(([name, point], place) => {
      const swatch = h("span", { class: "swatch" });
      swatch.style.borderTopColor = "var(--c" + (place % 7) + ")";
      swatch.style.borderTopStyle = place ? "dashed" : "solid";
      return h("li", {}, swatch, plain(label(name)), " ", h("b", {}, point ? number(point[1], 3) : "-"));
    }));
    if (aloud) say("step " + steady[at] + ": " + told.map(([name, point]) => label(name) + " " + (point ? number(point[1], 3) : "none")).join(", "));
  }
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const wanted = first + (last - first) * (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
    read(steady.findLastIndex((one) => one <= wanted + 0.5), false);
  });
  svg.addEventListener("pointerleave", () => read(steady.length - 1, null));
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move) { event.preventDefault(); read(at + move, true); }
  });
  read(at, null);
  return h("section", { class: "card chart" }, h("h3", {}, plain(title)), svg, legend);
}

function inWords(title, series) {
  const told = series.filter((one) => one.points.length).map(({ name, points }) => {
    const values = points.map((one) => one[1]), [low, high] = extent(values);
    return label(name) + " from " + number(values[0], 3) + " to " + number(values.at(-1), 3) + ", between " + number(low, 3) + " and " + number(high, 3);
  });
  return title + " over the steps. " + told.join("; ") + ". Arrow keys read single steps.";
}

function histograms() {
  const agents = [...new Set(index.episodes.map((one) => one.agent))];
  const rewards = index.episodes.filter((one) => known(one.reward)).map((one) => one.reward);
  if (!rewards.length) return [h("p", { class: "muted" }, "Nothing is graded yet.")];
  const [low, high] = extent(rewards).map(Math.floor), bins = high - low + 1;
  return agents.map((agent, place) => {
    const counts = new Array(bins).fill(0);
    for (const one of index.episodes) if (one.agent === agent && known(one.reward)) counts[Math.floor(one.reward) - low] += 1;
    if (!extent(counts)[1]) return h("section", { class: "card" }, h("h3", {}, plain(agent)), h("p", { class: "muted" }, "Nothing is graded."));
    const most = extent(counts)[1], wide = (WIDTH - LEFT - RIGHT) / bins;
    const told = counts.map((count, bin) => count + " from " + (low + bin) + " to " + (low + bin + 1)).join("; ");
    const svg = s("svg", { viewBox: "0 0 " + WIDTH + " " + HEIGHT, role: "img", "aria-label": "Episodes by reward: " + told });
    counts.forEach((count, bin) => {
      const tall = (HEIGHT - TOP - BOTTOM - 10) * count / most, left = LEFT + bin * wide;
      svg.append(s("rect", { x: left + 1, width: Math.max(1, wide - 2), y: HEIGHT - BOTTOM - tall, height: tall, fill: "var(--c" + (place % 7) + ")" }));
      svg.append(s("text", { x: left, y: HEIGHT - 6, "text-anchor": "middle" }, String(low + bin)));
      if (count) svg.append(s("text", { x: left + wide / 2, y: HEIGHT - BOTTOM - tall - 3, "text-anchor": "middle" }, String(count)));
    });
    return h("section", { class: "card" }, h("h3", {}, plain(agent)), svg, h("p", { class: "muted" }, "episodes by reward"));
  });
}

// --- figures side by side -----------------------------------------------------------------------

function figures(title, columns) {
  const names = Object.keys(columns).filter((one) => Object.keys(columns[one]).length);
  if (!names.length) return null;
  const body = [];
  const row = (name, cells) => body.push(h("tr", {}, h("th", { scope: "row" }, plain(words(name))), cells.map((one) => cell(name, one))));
  const keys = [...new Set(names.flatMap((one) => Object.keys(columns[one])))];
  const nested = keys.filter((key) => names.some((one) => columns[one][key] !== null && typeof columns[one][key] === "object" && !Array.isArray(columns[one][key])));
  for (const key of keys.filter((one) => !nested.includes(one))) row(key, names.map((one) => columns[one][key]));
  for (const key of nested) {
    body.push(h("tr", { class: "title" }, h("th", { scope: "colgroup", colspan: names.length + 1 }, plain(words(key)))));
    const inner = [...new Set(names.flatMap((one) => Object.keys(columns[one][key] || {})))];
    for (const one of inner) row(one, names.map((name) => (columns[name][key] || {})[one]));
  }
  const head = h("tr", {}, h("td", {}), names.map((one) => h("th", { scope: "col", class: "number" }, plain(one))));
  return [h("h2", {}, title), h("div", { class: "scroll card", tabindex: 0, role: "region", "aria-label": title }, h("table", { class: "figures" }, h("thead", {}, head), h("tbody", {}, body)))];
}

function cell(name, value) {
  let text = typeof value === "number" ? number(value) : known(value) ? brief(value) : "-";
  if (typeof value === "number" && /_(rate|share)$/.test(name)) text = (100 * value).toFixed(0) + " %";
  return h("td", { class: "number" }, plain(text));
}

function brief(value) {
  if (typeof value === "number") return number(value, 3);
  if (Array.isArray(value)) return value.map(brief).join(" to ");
  return typeof value === "object" && value !== null ? Object.entries(value).map(([name, one]) => words(name) + " " + brief(one)).join(", ") : String(value);
}

function comparisons() {
  if (!index.comparisons.length) return null;
  return [h("h2", {}, "Agents compared"), index.comparisons.map((one) => {
    const rows = Object.entries(one.figures || {}), columns = [...new Set(rows.flatMap(([, told]) => Object.keys(told)))];
    const facts = Object.entries(one).filter(([name, value]) => name !== "figures" && known(value));
    const title = one.second + " minus " + one.first;
    return h("details", {}, h("summary", {}, plain(title)), h("div", { class: "scroll card", tabindex: 0, role: "region", "aria-label": title }, h("table", { class: "figures" },
      h("thead", {}, h("tr", {}, h("td", {}), columns.map((name) => h("th", { scope: "col", class: "number" }, plain(words(name)))))),
      h("tbody", {}, rows.map(([name, told]) => h("tr", {}, h("th", { scope: "row" }, plain(words(name))), columns.map((column) => h("td", { class: "number" }, plain(known(told[column]) ? brief(told[column]) : "-")))))))),
    h("p", { class: "muted" }, plain(facts.map(([name, value]) => words(name) + " " + brief(value)).join(", "))));
  })];
}

function journal() {
  if (!index.journal.length) return null;
  return [h("h2", {}, "Journal"), h("ul", { class: "card journal" }, index.journal.map((one) => h("li", {}, plain(one))))];
}

function settings() {
  const rows = Object.entries(index.settings).filter(([, value]) => known(value));
  return h("details", {}, h("summary", {}, "Settings (" + rows.length + ")"), h("div", { class: "scroll card" }, h("table", {}, h("tbody", {},
    rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, plain(name)), h("td", { class: "code" }, plain(typeof value === "string" ? value : JSON.stringify(value)))))))));
}
