"use strict";
// Tables of figures: before and after, agents side by side, pairs of agents.

// What figures are called where their names in the files do not tell it.
const LABELS = new Map([
  ["by_weakness", "mean reward by weakness"],
  ["between_sd", "sd between tasks"],
  ["edits", "edits an episode"],
  ["failed", "episodes without a number"],
  ["failed_edits", "failed edits an episode"],
  ["failed_share", "edits that failed"],
  ["fits", "fits the page"],
  ["gradient_norm", "norm of the gradient"],
  ["interval", "95 % interval"],
  ["layout_pass", "fits the page"],
  ["layout_pass_rate", "fits the page"],
  ["lines", "lines of the document"],
  ["malformed", "malformed calls an episode"],
  ["mean", "difference"],
  ["over_tasks", "over tasks"],
  ["p_holm", "p (Holm)"],
  ["reward", "mean reward"],
  ["reward_sd", "sd of the reward"],
  ["score", "score, 0 to 100"],
  ["several_calls", "several calls in a turn"],
  ["shared", "tasks that all played"],
  ["submit_rate", "submitted"],
  ["ties", "tasks it shares the best on"],
  ["tool_syntax", "tool calls"],
  ["turns", "turns an episode"],
  ["unjudged", "unchanged, not judged"],
  ["verdict", "judge, −1 to +1"],
  ["wins", "tasks it is best on"],
  ["within_sd", "sd within a task"],
  ["words", "words an episode"],
]);

const label = (figure) => LABELS.get(figure) || words(figure.replace(/^verdict_/, ""));

// A table that scrolls sideways; its rows are made by `figureRow`.
function figureTable(title, heads, rows) {
  const head = [
    h("td", {}),
    heads.map((one) => h("th", { scope: "col", class: "number" }, plain(one))),
  ];
  return h(
    "div",
    { class: "scroll card", tabindex: 0, role: "region", "aria-label": title },
    h("table", { class: "figures" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
  );
}

// Cells are texts, or elements `td`.
function figureRow(name, cells) {
  const row = cells.map((one) =>
    one instanceof Node ? one : h("td", { class: "number" }, plain(one)),
  );
  return h("tr", {}, h("th", { scope: "row" }, plain(name)), row);
}

const isGroup = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

// Columns by their names, each an object of figures; what is nested gets a heading of its own.
function figures(title, columns) {
  const names = Object.keys(columns).filter((one) => Object.keys(columns[one]).length);
  if (!names.length) return null;
  const keysOf = (parts) => [...new Set(parts.flatMap((one) => Object.keys(one || {})))];
  const rowOf = (text, key, parts) =>
    figureRow(
      text,
      cellTexts(
        key,
        parts.map((one) => (one || {})[key]),
      ),
    );
  const all = names.map((name) => columns[name]);
  const keys = keysOf(all);
  const nested = keys.filter((key) => all.some((one) => isGroup(one[key])));
  const plainRows = keys
    .filter((key) => !nested.includes(key))
    .map((key) => rowOf(label(key), key, all));
  const nestedRows = nested.map((key) => {
    const parts = all.map((one) => one[key]);
    const heading = h("th", { scope: "colgroup", colspan: names.length + 1 }, plain(label(key)));
    const inner = keysOf(parts).map((one) => rowOf(label(one), one, parts));
    return [h("tr", { class: "title" }, heading), inner];
  });
  return h("section", {}, h("h2", {}, title), figureTable(title, names, [plainRows, nestedRows]));
}

// Of one row: all with decimals unless all are whole.
function cellTexts(key, values) {
  const whole = values.every((one) => typeof one !== "number" || Number.isInteger(one));
  return values.map((value) => {
    if (key === "interval" && Array.isArray(value)) return range(value);
    if (typeof value !== "number") return known(value) ? brief(value) : "-";
    return /_(rate|share)$/.test(key) ? fixed(100 * value, 0) + " %" : number(value, whole ? 0 : 2);
  });
}

function brief(value) {
  if (typeof value === "number") return number(value, Number.isInteger(value) ? 0 : 3);
  if (Array.isArray(value)) return value.map(brief).join(" to ");
  if (!isGroup(value)) return String(value);
  return Object.entries(value)
    .map(([name, one]) => words(name) + " " + brief(one))
    .join(", ");
}

const range = (ends) => ends.map((one) => number(one, 2)).join(" to ");

// --- the result of an evaluation ----------------------------------------------------------------

// The agents by their mean reward, and how they differ.
function result() {
  const parts = [standings(), differences()].filter(Boolean);
  return parts.length ? h("section", {}, h("h2", {}, "Result"), parts) : null;
}

const STANDING = ["reward", "interval", "score", "submit_rate", "wins"];

function standings() {
  const agents = Object.entries(index.figures);
  if (!agents.length) return null;
  const rows = agents.map(([name, summary]) => {
    const told = { ...summary, ...index.statistics[name] };
    return [name, STANDING.map((key) => cellTexts(key, [told[key]])[0])];
  });
  const kept = STANDING.map((_, at) => rows.some(([, cells]) => cells[at] !== "-"));
  const some = (cells) => cells.filter((_, at) => kept[at]);
  const body = rows.map(([name, cells]) => figureRow(name, some(cells)));
  return figureTable("Agents", some(STANDING.map(label)), body);
}

// The differences in reward; those in other measures on demand.
function differences() {
  const pairs = index.comparisons.filter((one) => isGroup(one.figures));
  const measures = [...new Set(pairs.flatMap((one) => Object.keys(one.figures)))];
  const others = measures.filter((one) => one !== "reward");
  if (!measures.length) return null;
  const inner = others.map((measure) =>
    pairs.length === 1
      ? differenceRow(label(measure), pairs[0].figures[measure])
      : [
          h("tr", { class: "title" }, h("th", { scope: "colgroup", colspan: 5 }, label(measure))),
          pairs.map((one) => differenceRow(pairName(one), one.figures[measure])),
        ],
  );
  const title = `Differences in other measures (${others.length})`;
  return [
    figureTable(
      "Differences in mean reward",
      [...DIFFERENCE.map(label), "better / same / worse"],
      pairs.map((one) => differenceRow(pairName(one), one.figures.reward, one)),
    ),
    h("p", { class: "muted" }, plain(pairs[0].method || "")),
    others.length
      ? h("details", {}, h("summary", {}, title), figureTable(title, DIFFERENCE.map(label), inner))
      : null,
  ];
}

const DIFFERENCE = ["mean", "interval", "p", "p_holm"];
const pairName = (pair) => `${pair.second} − ${pair.first}`;

// With `pair`, also on how many tasks its second agent is better, the same, and worse.
function differenceRow(name, told, pair = null) {
  const { mean, interval, ...tests } = told || {};
  const cells = [
    typeof mean === "number" ? signed(mean) : "-",
    Array.isArray(interval) ? range(interval) : "-",
    ...[tests.p, tests.p_holm].map((one) => (known(one) ? brief(one) : "-")),
  ];
  const counts = pair && [pair.wins, pair.ties, pair.losses];
  if (counts) cells.push(counts.every(known) ? counts.join(" / ") : "-");
  return figureRow(name, cells);
}
