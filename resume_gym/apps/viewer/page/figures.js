// Tables of figures: before and after, agents side by side, pairs of agents.

// What figures are called where their names in the files do not tell it.
const LABELS = {
  by_weakness: "mean reward by weakness",
  edits: "edits an episode",
  failed: "episodes without a number",
  failed_edits: "failed edits an episode",
  failed_share: "edits that failed",
  fits: "fits the page",
  interval: "95 % interval",
  layout_pass: "fits the page",
  layout_pass_rate: "fits the page",
  lines: "lines of the document",
  malformed: "malformed calls an episode",
  mean: "difference",
  p_holm: "p (Holm)",
  reward: "mean reward",
  reward_sd: "sd of the reward",
  score: "score, 0 to 100",
  several_calls: "several calls in a turn",
  submit_rate: "submitted",
  tool_syntax: "tool calls",
  turns: "turns an episode",
  unjudged: "unchanged, not judged",
  verdict: "judge, −1 to +1",
  words: "words an episode",
};

const label = (figure) =>
  Object.hasOwn(LABELS, figure) ? LABELS[figure] : words(figure.replace(/^verdict_/, ""));

// A table that scrolls sideways; its rows are made by `figureRow`.
function figureTable(title, heads, rows) {
  const head = heads.map((one) => h("th.number", { scope: "col" }, one));
  return h(
    "div.scroll.card",
    { tabindex: 0, role: "region", "aria-label": title },
    h("table.figures", h("thead", h("tr", h("td"), head)), h("tbody", rows)),
  );
}

// Cells are texts, or elements `td`.
function figureRow(name, cells) {
  const row = cells.map((one) => (one instanceof Node ? one : h("td.number", one)));
  return h("tr", h("th", { scope: "row" }, name), row);
}

const isGroup = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

// Columns by their names, each an object of figures; what is nested gets a heading of its own.
function figures(title, columns) {
  const names = Object.keys(columns).filter((one) => Object.keys(columns[one]).length);
  if (!names.length) return null;
  const rowsOf = (parts, wanted) =>
    [...new Set(parts.flatMap((one) => Object.keys(one || {})))].map((key) => {
      const values = parts.map((one) => (one || {})[key]);
      return wanted(values) ? figureRow(label(key), cellTexts(key, values)) : null;
    });
  const all = names.map((name) => columns[name]);
  const nested = new Set(all.flatMap((one) => Object.keys(one).filter((key) => isGroup(one[key]))));
  const parts = [...nested].map((key) => {
    const heading = h("th", { scope: "colgroup", colspan: names.length + 1 }, label(key));
    const inner = all.map((one) => one[key]);
    return [h("tr.title", heading), rowsOf(inner, () => true)];
  });
  const single = rowsOf(all, (values) => !values.some(isGroup));
  return h("section", h("h2", title), figureTable(title, names, [single, parts]));
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
  const parts = Object.entries(value).map(([name, one]) => words(name) + " " + brief(one));
  return parts.join(", ");
}

const range = (ends) => ends.map((one) => number(one, 2)).join(" to ");

// --- the result of an evaluation ----------------------------------------------------------------

// The agents side by side, each with the interval of its mean reward, and how they differ.
function result() {
  const columns = Object.entries(index.figures).map(([name, { reward, ...rest }]) => {
    const { interval } = index.statistics[name] || {};
    return [name, { reward, ...(interval && { interval }), ...rest }];
  });
  const title = "Figures of each agent";
  return h("section", differences(), figures(title, Object.fromEntries(columns)));
}

// The differences in reward; on how many tasks the second agent is better, the same and worse.
function differences() {
  const pairs = index.comparisons.filter((one) => isGroup(one.figures?.reward));
  if (!pairs.length) return null;
  const heads = [...["mean", "interval", "p", "p_holm"].map(label), "better / same / worse"];
  const rows = pairs.map(({ first, second, figures, wins, ties, losses }) => {
    const { mean, interval, p, p_holm } = figures.reward;
    const counts = [wins, ties, losses];
    return figureRow(`${second} − ${first}`, [
      typeof mean === "number" ? signed(mean) : "-",
      Array.isArray(interval) ? range(interval) : "-",
      ...[p, p_holm].map((one) => (known(one) ? brief(one) : "-")),
      counts.every(known) ? counts.join(" / ") : "-",
    ]);
  });
  const table = figureTable("Differences in mean reward", heads, rows);
  return [h("h2", "Differences"), table, h("p.muted", pairs[0].method || "")];
}
