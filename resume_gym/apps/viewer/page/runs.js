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
  const columns = runs.flatMap(latest);
  const content = [
    h("div.row", h("a", { href: "#/" }, "‹ All runs")),
    h("h1", "Compare ", runs.map((one) => one.name).join(", ")),
    notes(wanted.flatMap((one) => one.notes.map((told) => one.name + ": " + told))),
    runs.length < 2 ? notes(["Tick two or more in the list of runs."]) : null,
    notes(differentTasks(runs)),
    overlaid(runs.filter((one) => one.metrics.length)),
    h("div.flow.wide", differing(runs), figures("Latest evaluation", Object.fromEntries(columns))),
  ];
  return { content, keys: {} };
}

// Columns of a run or an evaluation: the latest figures, with the floor below the reward.
function latest({ name, kind, figures: played, statistics = {} }) {
  const withFloor = ({ reward, errors, ...rest }, floor, error) => {
    const beside = known(floor) ? { floor } : {};
    return { reward, ...beside, ...rest, errors: { ...errors, floor: error } };
  };
  if (kind === "run") {
    const { floor, ...others } = played;
    const last = Object.values(others).at(-1);
    return [[name, last ? withFloor(last, floor?.reward, floor?.errors?.reward) : {}]];
  }
  return Object.entries(played).map(([agent, one]) => [
    `${name}: ${agent}`,
    withFloor(one, statistics[agent]?.floor),
  ]);
}

// Warns of runs that have not all played the same held-out tasks.
function differentTasks(runs) {
  const played = runs.filter((one) => one.played.length);
  if (new Set(played.map((one) => String(one.played))).size < 2) return [];
  const shared = played.map((one) => new Set(one.played));
  const common = played[0].played.filter((task) => shared.every((one) => one.has(task))).length;
  const counts = played.map((one) => `${one.name} ${one.played.length}`).join(", ");
  const why = `Held-out tasks: ${counts}; ${common || "none"} in common.`;
  return [`Different tasks were played, so the rewards cannot be compared. ${why}`];
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

// All settings that are not the same everywhere; settings of settings are a row each.
function differing(runs) {
  const all = runs.map((one) => new Map(flat(one.settings)));
  const names = [...new Set(all.flatMap((one) => [...one.keys()]))];
  const texts = (name) => all.map((one) => one.get(name) ?? "-");
  const different = names.filter((name) => new Set(texts(name)).size > 1);
  // a run and an evaluation have few settings in common
  const isMixed = new Set(runs.map((one) => one.kind)).size > 1;
  const isSingle = (name) => isMixed && new Set(texts(name)).size === 2 && texts(name).includes("-");
  const single = different.filter(isSingle);
  const part = (title, some) => {
    const row = (name) => figureRow(name, texts(name).map((one) => h("td.number.code", one)));
    const heads = runs.map((one) => one.name);
    return some.length ? figureTable(title, heads, some.map(row)) : h("p", "None.");
  };
  const title = "Settings that differ";
  const other = `Settings that only some have (${single.length})`;
  return h(
    "section",
    h("h2", title),
    part(title, different.filter((name) => !isSingle(name))),
    single.length ? h("details", h("summary", other), part(other, single)) : null,
  );
}

// Pairs of the names ("rules.max_turns") and texts of settings.
const flat = (settings, start = "") =>
  Object.entries(settings).flatMap(([name, value]) =>
    isGroup(value)
      ? flat(value, start + name + ".")
      : [[start + name, value === "" ? "(empty)" : value === null ? "none" : asText(value)]],
  );
