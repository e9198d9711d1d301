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
  ["p_holm", "p (Holm)"],
  ["reward", "mean reward"],
  ["reward_sd", "sd of the reward"],
  ["score", "score, 0 to 100"],
  ["several_calls", "several calls in a turn"],
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
    const inner = keysOf(parts).map((one) => rowOf(words(one), one, parts));
    return [h("tr", { class: "title" }, heading), inner];
  });
  return h("section", {}, h("h2", {}, title), figureTable(title, names, [plainRows, nestedRows]));
}

// Of one row: all with decimals unless all are whole.
function cellTexts(key, values) {
  const whole = values.every((one) => typeof one !== "number" || Number.isInteger(one));
  return values.map((value) => {
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

function comparisons() {
  if (!index.comparisons.length) return null;
  return h("section", {}, h("h2", {}, "Agents compared"), index.comparisons.map(comparison));
}

function comparison(pair) {
  const title = pair.second + " minus " + pair.first;
  const rows = Object.entries(pair.figures || {});
  const heads = [...new Set(rows.flatMap(([, told]) => Object.keys(told)))];
  const body = rows.map(([name, told]) =>
    figureRow(
      label(name),
      heads.map((head) => (known(told[head]) ? brief(told[head]) : "-")),
    ),
  );
  const won = known(pair.wins)
    ? `On the tasks that both played, ${pair.second} has the better mean reward on ${pair.wins} ` +
      `of ${pair.tasks}, the same on ${pair.ties}, a worse one on ${pair.losses}. `
    : "";
  return h(
    "details",
    { open: index.comparisons.length < 4 },
    h("summary", {}, plain(title)),
    figureTable(title, heads.map(label), body),
    h("p", { class: "muted" }, plain(won + (pair.method || ""))),
  );
}
