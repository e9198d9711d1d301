// The overview: the runs of a folder; or curves of a run, figures side by side, the journal.

const PANELS = [
  ["Reward, and its spread", ["reward"]],
  ["The reward's parts", ["tool_syntax", "content", "layout"]],
  ["Score, 0 to 100", ["score"]],
  ["Rates, 0 to 1", ["submit_rate", "layout_pass", "failed_share", "judged"]],
  ["Judge, −1 to +1", /^verdict_/],
  ["Calls an episode", ["turns", "edits", "failed_edits", "malformed"]],
  ["Lines of the final document", ["lines"]],
  ["Entropy, nats a token", ["entropy"]],
  ["Size of the gradient", ["gradient_norm"]],
];

function overviewPage() {
  const isRun = index.kind === "run";
  return [
    h("h1", isRun ? "Run " : "Evaluation ", index.name),
    notes(index.notes),
    leftOut(),
    facts(),
    isRun ? curves() : result(),
    isRun ? h("div.pair", figures("On held-out tasks", index.figures), journal()) : null,
    isRun ? highestPaid() : null,
    settings(),
  ];
}

const notes = (texts) => texts.map((one) => h("p.note", one));

function leftOut() {
  if (!isExported) return null;
  const all = index.episodes.length;
  const missing = index.episodes.filter((one) => !one.kept).length;
  const share = missing ? `, and of ${missing} of ${all} episodes only rows` : "";
  return notes([`An exported file without the records${share}.`]);
}

function facts() {
  const { settings, episodes, metrics } = index;
  const { env, model, judge, split, seed } = settings;
  return factList([
    ["episodes", episodes.length],
    ["tasks", new Set(episodes.map((one) => one.task)).size],
    ["steps", metrics.length || null],
    ["environment", env],
    ["model", model],
    ["judge", isGroup(judge) ? JSON.stringify(judge) : judge],
    ["split", split],
    ["seed", seed],
  ]);
}

function factList(pairs) {
  const present = pairs.filter(([, value]) => known(value));
  const items = present.map(([name, value]) => h("li", h("span.muted", name), " ", h("b", value)));
  return h("ul.facts", items);
}

function curves() {
  const { metrics } = index;
  if (!metrics.length) return h("p.muted", "No step has ended yet.");
  const numbers = (one) => Object.keys(one).filter((name) => typeof one[name] === "number");
  const rest = new Set(metrics.flatMap(numbers));
  const panels = PANELS.map(([title, wanted]) => {
    const isWanted = (one) => (Array.isArray(wanted) ? wanted.includes(one) : wanted.test(one));
    return [title, [...rest].filter(isWanted)];
  });
  const drawn = panels.filter(([, names]) => names.length);
  for (const name of ["step", "reward_std", ...drawn.flatMap(([, names]) => names)])
    rest.delete(name);
  const charts = drawn.map(([title, names]) => chart(title, names));
  return [h("h2", "Curves"), h("div.grid", charts), rest.size ? otherCurves([...rest]) : null];
}

function otherCurves(names) {
  const box = h("details", h("summary", `All other figures (${names.length})`));
  const draw = () =>
    box.append(
      h(
        "div.grid",
        names.map((one) => chart(words(one), [one])),
      ),
    );
  box.addEventListener("toggle", draw, { once: true }); // drawn when they are wanted
  return box;
}

function journal() {
  if (!index.journal.length) return null;
  const items = index.journal.map((one) => h("li", one));
  return h("section", h("h2", "Journal"), h("ul.card.journal", items));
}

// What the judge pays best, to be read: of the last evaluation.
function highestPaid() {
  const all = index.episodes.filter((one) => one.flags.includes("held-out") && known(one.reward));
  const last = Math.max(...all.map((one) => one.step));
  const paid = all.filter((one) => one.step === last).sort((a, b) => b.reward - a.reward);
  if (!paid.length) return null;
  const items = paid
    .slice(0, 10)
    .map((one) => h("li", signed(one.reward), " ", link(`${one.task}, ${nameOf(one)}`, one)));
  return h("section", h("h2", "Highest paid, held-out tasks"), h("ol.card.journal", items));
}

function settings() {
  const present = Object.entries(index.settings).filter(([, value]) => known(value));
  const rows = present.map(([name, value]) => figureRow(name, [h("td.code", asText(value))]));
  const table = h("div.scroll.card", h("table", h("tbody", rows)));
  return h("details", h("summary", `Settings (${rows.length})`), table);
}

// --- the runs and evaluations of a folder, the last to change first -------------------------------

function listPage() {
  const heads = ["name", "kind", "environment", "steps", "reward", "last change"];
  const labels = heads.map((one, at) => [one, [0, 1, 4].includes(at) ? "wide" : ""]);
  const head = heads.map((one) => h("th", { scope: "col" }, one));
  const table = cards("Runs and evaluations", head, labels, index.runs.map(listCells));
  return [h("h1", "Runs in ", index.name), table];
}

function listCells(run) {
  const [done, planned] = run.steps || [];
  const when = { dateStyle: "medium", timeStyle: "short" };
  const texts = [
    run.problem ? "cannot be read: " + run.problem : run.kind,
    run.env,
    known(done) ? done + (known(planned) ? " of " + planned : "") : null,
    rewardsOf(run),
    run.changed ? new Date(run.changed).toLocaleString(undefined, when) : null,
  ];
  const name = run.problem ? h("b", run.name) : h("a", { href: run.href }, run.name);
  return [name, ...texts.map((one) => (known(one) ? one : "-"))];
}

// Of a run that of its last step; of an evaluation those of its best agents.
function rewardsOf({ rewards }) {
  const numbers = Object.entries(rewards || {}).filter(([, one]) => typeof one === "number");
  const best = numbers
    .sort(([, a], [, b]) => b - a)
    .map(([agent, one]) => `${agent} ${signed(one)}`);
  return best.slice(0, 3).join(", ") + (best.length > 3 ? ", ..." : "");
}
