// Overview of a run or an evaluation: curves, figures and journal.

const PANELS = [
  ["Reward, and its spread", /^reward$/],
  ["Reward by environment", /\/reward$/],
  ["The reward's parts", /^(tool_syntax|content|layout)$/],
  ["Score, 0 to 100", /^score$/],
  ["Rates, 0 to 1", /^(submit_rate|layout_pass|failed_share|judged)$/],
  ["Judge, −1 to +1", /^verdict_/],
  ["Calls an episode", /^(turns|edits|failed_edits|malformed)$/],
  ["Lines of the final document", /^lines$/],
  ["Entropy, nats a token", /^entropy$/],
  ["Gradient norm", /^gradient_norm$/],
];

function overviewPage() {
  const isRun = index.kind === "run";
  return [
    h("h1", isRun ? "Run " : "Evaluation ", index.name),
    notes(index.notes),
    leftOut(),
    facts(),
    isRun ? curves() : result(),
    isRun ? h("div.flow", figures("On held-out tasks", index.figures), journal()) : null,
    isRun ? highestPaid() : null,
    settings(),
  ];
}

const notes = (texts) => texts.map((one) => h("p.note", one));

function leftOut() {
  if (!isExported) return null;
  const all = index.episodes.length;
  const missing = index.episodes.filter((one) => !one.kept).length;
  const share = missing ? `; only table rows of ${missing} of ${counted(all, "episode")}` : "";
  return notes([`This exported file has no records (JSON) to download${share}.`]);
}

function facts() {
  const { settings, episodes, metrics } = index;
  const { env, model, judge, split, seed, floor } = settings;
  return factList([
    ["status", index.status],
    ["episodes", episodes.length],
    ["tasks", new Set(episodes.map(taskOf)).size],
    ["steps", metrics.length || null],
    ["environment", env],
    ["model", model],
    ["judge", isGroup(judge) ? JSON.stringify(judge) : judge],
    ["split", split],
    ["seed", seed],
    ["floor", typeof floor === "number" ? fixed(floor, 2) : null],
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
  const all = [...new Set(metrics.flatMap(numbersOf))];
  const charts = PANELS.map(([title, wanted]) => {
    const names = all.filter((one) => wanted.test(one));
    const drawn = names[0] === "reward" ? rewardSeries() : seriesOf(names);
    return names.length ? chart(title, drawn) : null;
  });
  const isShown = (name) => PANELS.some(([, wanted]) => wanted.test(name));
  const rest = all.filter((name) => !isShown(name) && !LEFT_OUT.includes(name));
  const others = () => rest.map((one) => chart(label(one), seriesOf([one])));
  return [h("h2", "Curves"), h("div.grid", charts), lateGrid(rest.length, others)];
}

const numbersOf = (one) => Object.keys(one).filter((name) => typeof one[name] === "number");

// Charts that are drawn when their details are opened.
function lateGrid(count, draw) {
  const box = h("details", { hidden: !count }, h("summary", `All other figures (${count})`));
  box.addEventListener("toggle", () => box.append(h("div.grid", draw())), { once: true });
  return box;
}

const LATEST = 20; // entries of the journal that are shown at once
const LONG_LIST = 5; // items from which a list in an entry is folded

function journal() {
  const { journal: all } = index;
  if (!all.length) return null;
  const cut = all.length > 1.5 * LATEST ? all.length - LATEST : 0;
  const list = (entries) => h("ul.card.journal", entries.map(journalEntry));
  const earlier = h("details", h("summary", `Earlier entries (${cut})`), list(all.slice(0, cut)));
  return h("section", h("h2", "Journal"), cut ? earlier : null, list(all.slice(cut)));
}

// An entry that ends with a long list shows what comes before, and the list when it is opened.
function journalEntry(entry) {
  const at = entry.lastIndexOf(": ");
  const items = entry.slice(at + 2).split(/, (?![^([{]*[)\]}])/); // not within brackets
  if (at < 0 || items.length < LONG_LIST) return h("li", entry);
  const summary = h("summary", `${entry.slice(0, at)} (${items.length})`);
  return h("li", h("details", summary, h("ul", items.map((one) => h("li", one)))));
}

// Episodes of the last evaluation with the highest rewards, to be checked by a reader.
function highestPaid() {
  const all = index.episodes.filter((one) => one.flags.includes("held-out") && known(one.reward));
  const last = Math.max(...all.map((one) => one.step));
  const paid = all.filter((one) => one.step === last).sort((a, b) => b.reward - a.reward);
  if (!paid.length) return null;
  const items = paid
    .slice(0, 10)
    .map((one) => h("li", signed(one.reward), " ", link(`${one.task}, ${nameOf(one)}`, one)));
  const title = "Highest paid episodes, held-out tasks";
  return h("section", h("h2", title), h("ol.card", items));
}

function settings() {
  const present = Object.entries(index.settings).filter(([, value]) => known(value));
  const rows = present.map(([name, value]) => figureRow(name, [h("td.code", asText(value))]));
  const table = h("div.scroll.card", h("table", h("tbody", rows)));
  return h("details", h("summary", `Settings (${rows.length})`), table);
}
