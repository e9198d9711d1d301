// List of the runs and evaluations of a folder, and their comparison.

const WHEN = { dateStyle: "medium", timeStyle: "short" };
const RUNS = [
  ["name", "name", "wide", runCell],
  ["kind", "kind", "", (one) => (one.problem ? "cannot be read: " + one.problem : one.kind)],
  ["status", "status", ""],
  ["model", "model or agents", "wide"],
  ["env", "environment", ""],
  ["step", "steps", "number", ({ step, steps }) => step + (known(steps) ? " of " + steps : "")],
  ["reward", "held-out reward", "number", rewardCell],
  ["floor", "floor", "number", (one) => fixed(one.floor, 2)],
  ["training", "training reward", "number", (one) => fixed(one.training, 2)],
  ["changed", "last change", "", (one) => new Date(one.changed).toLocaleString(undefined, WHEN)],
];

// Metrics that a comparison of runs draws at once, besides the reward.
const FIRST = ["tool_syntax", "content", "layout", "failed_share", "entropy"];

function listPage(query) {
  const picked = query.getAll("run");
  const rows = sorted(index.runs, query, RUNS);
  const cells = rows.map((one) => RUNS.map((column) => tableCell(column, one)));
  const names = new URLSearchParams(picked.map((one) => ["run", one]));
  const compare = h("a.button", { href: "#/runs?" + names }, `Compare ${picked.length}`);
  const hint =
    "Tick two or more to compare them. Held-out reward: that of the latest evaluation, or of the " +
    "best agent, which is named first; ± twice its standard error.";
  const content = [
    h("h1", "Runs and evaluations"),
    h("div.row", picked.length > 1 ? compare : null, h("span.muted", hint)),
    cards("Runs and evaluations", RUNS, cells, query.get("sort") || "-changed"),
  ];
  return { content, keys: rowKeys };
}

function runCell(run) {
  if (run.problem) return h("b", run.name);
  const { query } = place();
  const picked = query.getAll("run");
  const pick = ({ target }) => {
    query.delete("run");
    const others = picked.filter((one) => one !== run.name);
    for (const one of target.checked ? [...others, run.name] : others) query.append("run", one);
    keeping(() => go("", query, true));
  };
  const checked = picked.includes(run.name);
  const name = { id: "pick-" + run.name, "aria-label": "compare " + run.name };
  const box = h("input", { type: "checkbox", checked, onchange: pick, ...name });
  return [box, " ", h("a", { href: run.href }, run.name)];
}

function rewardCell({ reward, error, notes: doubts = [] }) {
  const range = error ? h("span.muted", "\u00a0±\u00a0" + fixed(error, 2)) : null;
  return [h("b", fixed(reward, 2)), range, notes(doubts)];
}

// --- side by side -------------------------------------------------------------------------------

async function runsPage(query) {
  const named = (name) => index.runs.filter((one) => one.name === name && one.href);
  const wanted = query.getAll("run").flatMap(named);
  const runs = await Promise.all(wanted.map((one) => ask(one.href + "figures.json")));
  const columns = runs.flatMap(({ name, kind, figures: { floor, ...played } }) => {
    if (kind === "run") return [[name, Object.values(played).at(-1) || {}]];
    const agents = Object.entries(floor ? { floor, ...played } : played);
    return agents.map(([agent, one]) => [`${name}: ${agent}`, one]);
  });
  const content = [
    h("div.row", h("a", { href: "#/" }, "‹ All runs")),
    h("h1", "Compare ", runs.map((one) => one.name).join(", ")),
    notes(wanted.flatMap((one) => one.notes.map((told) => one.name + ": " + told))),
    runs.length < 2 ? notes(["Tick two or more in the list of runs."]) : null,
    overlaid(runs.filter((one) => one.metrics.length)),
    h("div.flow", figures("Latest evaluation", Object.fromEntries(columns)), differing(runs)),
  ];
  return { content, keys: {} };
}

function overlaid(runs) {
  if (!runs.length) return null;
  const each = (name, kind = "") =>
    runs.map((run, at) => series(name, at, run.metrics, run.name + kind));
  const draw = (name) => chart(label(name), each(name));
  const held = runs.map((run, at) => heldOut(run, at, run.name + ", held-out tasks"));
  const reward = chart("Reward", [...each("reward", ", training"), ...held]);
  const names = [...new Set(runs.flatMap((one) => one.metrics.flatMap(numbersOf)))];
  const rest = names.filter((name) => ![...LEFT_OUT, "reward", ...FIRST].includes(name));
  const first = FIRST.filter((name) => names.includes(name));
  return [
    h("h2", "Curves"),
    h("div.grid", reward, first.map(draw)),
    lateGrid(rest.length, () => rest.map(draw)),
  ];
}

function differing(runs) {
  const all = [...new Set(runs.flatMap((one) => Object.keys(one.settings)))];
  const texts = all.map((name) =>
    runs.map(({ settings }) => (known(settings[name]) ? asText(settings[name]) : "-")),
  );
  // a run and an evaluation have few settings in common
  const isMixed = new Set(runs.map((one) => one.kind)).size > 1;
  const rows = all.map((name, at) => {
    const isEqual = new Set(texts[at]).size < 2 || (isMixed && texts[at].includes("-"));
    if (isEqual || ["name", "runs"].includes(name)) return null;
    const cells = texts[at].map((one) => h("td.number.code", one));
    return figureRow(name, cells);
  });
  const title = "Settings that differ";
  const heads = runs.map((one) => one.name);
  const table = rows.some(Boolean) ? figureTable(title, heads, rows) : h("p", "None.");
  return h("section", h("h2", title), table);
}
