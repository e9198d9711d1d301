// Table of the episodes with filters, sorting and paging; its whole state is in the address.

const ROWS = 50;
// Name, title, class and, if a cell does not show the value, its content.
const COLUMNS = [
  ["number", "#", "number", numberCell],
  ["agent", "agent", "wide"],
  ["step", "step", "number"],
  ["task", "task", "wide"],
  ["env", "environment", "wide"],
  ["member", "rollout", "number"],
  ["weakness", "weakness", "", (one) => words(one.weakness)],
  ["outcome", "outcome", ""],
  ["reward", "reward", "number", (one) => h("b", signed(one.reward))],
  ["score", "score", "number", (one) => fixed(one.score, 1)],
  ["turns", "turns", "number"],
  ["edits", "edits", "number"],
  ["failed_edits", "failed edits", "number"],
  ["lines", "lines", "number", (one) => one.lines + "/" + one.page_lines],
  ["flags", "flags", "wide", flagsCell],
];
const CHOICES = ["agent", "step", "env", "weakness", "outcome", "flags"];
const ORDER = new Intl.Collator("en", { numeric: true });
let lastQuery = new URLSearchParams(); // of the table; the page of an episode links back to it
let lastEpisode = null; // opened last; the table scrolls to it

const valuesOf = (episode, name) => [episode[name] ?? ""].flat().map(String);

function matching(query) {
  const task = (query.get("task") || "").toLowerCase();
  const wanted = CHOICES.map((name) => [name, query.get(name)]).filter(([, value]) => value);
  return index.episodes.filter(
    (one) =>
      wanted.every(([name, value]) => valuesOf(one, name).includes(value)) &&
      one.task.toLowerCase().includes(task),
  );
}

// Sorts by the column in the query; a leading minus means descending.
function sorted(rows, query, columns = COLUMNS) {
  const sort = query.get("sort") || "";
  const name = sort.replace("-", "");
  if (!columns.some(([one]) => one === name)) return rows;
  const key = (one) => (name === "flags" ? one.flags.length : one[name]);
  return [...rows].sort((a, b) => {
    const [left, right] = [key(a), key(b)];
    // missing values come last
    if (!known(left) || !known(right)) return known(right) - known(left);
    const by = typeof left === "number" ? left - right : ORDER.compare(left, right);
    return sort === name ? by : -by;
  });
}

const rowKeys = {
  j: () => moveFocus(".episodes tbody a", 1),
  k: () => moveFocus(".episodes tbody a", -1),
};

function tablePage(query) {
  lastQuery = query;
  const found = sorted(matching(query), query);
  const pages = Math.max(1, Math.ceil(found.length / ROWS));
  const page = Math.min(pages, Math.max(1, Number(query.get("page")) || 1));
  const rows = found.slice((page - 1) * ROWS, page * ROWS);
  const turn = (to) => {
    if (to >= 1 && to <= pages) change({ page: to > 1 ? to : "" });
  };
  const mean = ", mean reward " + meanReward(found.filter((one) => known(one.reward)));
  const count = found.length + " of " + counted(index.episodes.length, "episode") + mean;
  say(count);
  const button = (title, to) => {
    const disabled = to < 1 || to > pages;
    return h("button", { type: "button", disabled, onclick: () => turn(to) }, title);
  };
  const at = `page ${page} of ${pages}`;
  const pager = () =>
    pages > 1 ? h("div.row", button("‹ Previous", page - 1), at, button("Next ›", page + 1)) : null;
  const empty = index.episodes.length ? "No episode matches." : "No episode has ended yet.";
  const content = [
    h("h1", "Episodes"),
    notes(index.notes),
    filters(query),
    h("p.row", { id: "found" }, count),
    pager(),
    rows.length ? table(rows, query) : h("p", empty),
    rows.length > 10 ? pager() : null,
  ];
  return { content, keys: { ...rowKeys, n: () => turn(page + 1), p: () => turn(page - 1) } };
}

function table(rows, query) {
  const isThere = ([name]) => index.episodes.some((one) => valuesOf(one, name).some(Boolean));
  const columns = COLUMNS.filter(isThere);
  const cells = rows.map((one) => columns.map((column) => tableCell(column, one)));
  return cards("Episodes", columns, cells, query.get("sort") || "number");
}

// Mean reward of graded episodes; each task counts once, with the mean of its episodes.
function meanReward(graded) {
  const tasks = new Map();
  for (const one of graded) {
    const task = taskOf(one);
    tasks.set(task, [...(tasks.get(task) || []), one.reward]);
  }
  const mean = (values) => values.reduce((sum, one) => sum + one, 0) / values.length;
  return tasks.size ? fixed(mean([...tasks.values()].map(mean)), 2) : "-";
}

// Tasks of different environments may have the same id.
const taskOf = ({ env, task }) => `${env}/${task}`;

function tableCell([name, , , content], row) {
  if (!known(row[name])) return "-";
  return content ? content(row) : row[name];
}

// Heading of a column; a click sorts by it, another click reverses the order.
function headCell([name, title, kind], sort) {
  const [arrow, order] =
    { [name]: ["↑", "ascending"], ["-" + name]: ["↓", "descending"] }[sort] || [];
  const next = () => change({ sort: sort === name ? "-" + name : name });
  const content = title + (arrow ? "\u00a0" + arrow : "");
  const button = h("button", { type: "button", id: "by-" + name, onclick: next }, content);
  return h("th", { scope: "col", class: kind, "aria-sort": order || "none" }, button);
}

// Table whose rows become labelled cards on a phone; a click on a row opens its link.
function cards(title, columns, rows, sort) {
  const open = (event) => {
    if (!event.target.closest("a, input")) event.target.closest("tr").querySelector("a")?.click();
  };
  const heads = columns.map((one) => headCell(one, sort));
  const cell = (content, at) =>
    h(
      "td",
      { "data-label": columns[at][1], class: `${columns[at][2]} ${columns[at][0]}` },
      content,
    );
  const body = rows.map((cells) => h("tr", cells.map(cell)));
  return h(
    "div.scroll",
    h(
      "table.episodes",
      { "aria-label": title },
      h("thead", h("tr", heads)),
      h("tbody", { onclick: open }, body),
    ),
  );
}

function numberCell({ number, kept }) {
  const link = { href: "#/episode/" + number, "aria-label": "open episode " + number };
  return [h("a", link, number), kept ? null : h("span.muted", " left out")];
}

// Flags as text: chips for all flags of a bad episode would fill the screen.
function flagsCell({ flags }) {
  if (!flags.length) return h("span.muted", "none");
  const worse = flags.filter((one) => one.startsWith("worse ")).map((one) => one.slice(6));
  const other = flags.filter((one) => !one.startsWith("worse "));
  const all = [...other, ...(worse.length ? ["worse: " + worse.join(", ")] : [])];
  return all.map((one, at) => [at ? ", " : "", h("span" + flagTone(one), one)]);
}

// Flags that are not faults are not shown as alarms.
const flagTone = (flag) => (["held-out", "not judged"].includes(flag) ? ".muted" : ".bad");

function toRow(number) {
  const opened = document.querySelector(`.episodes a[href="#/episode/${number}"]`);
  opened?.focus({ preventScroll: true });
  opened?.scrollIntoView({ block: "center" });
}

// --- filters ------------------------------------------------------------------------------------

// Redraws the table with other settings; keeps the focus.
async function change(settings) {
  const query = new URLSearchParams(place().query);
  for (const [name, value] of Object.entries({ page: "", ...settings })) {
    if (value === "") query.delete(name);
    else query.set(name, value);
  }
  await keeping(() => go(index.kind === "list" ? "" : "episodes", query, true)); // before another key
}

function filters(query) {
  let waits = 0; // timer: the filter applies once typing pauses
  const changed = (event) => {
    clearTimeout(waits);
    const { name, value } = event.target;
    const act = () => place().path[0] === "episodes" && change({ [name]: value });
    waits = setTimeout(act, event.target.matches("select") ? 0 : 150);
  };
  const field = (tag, name, title, attributes, content) =>
    h("label", title, h(tag, { id: "filter-" + name, name, ...attributes }, content));
  const choices = CHOICES.map((name) => {
    const counts = new Map();
    for (const value of index.episodes.flatMap((one) => valuesOf(one, name)))
      if (value) counts.set(value, (counts.get(value) || 0) + 1);
    if (counts.size < 2 && name !== "flags") return null;
    const values = [...counts.keys()].sort(ORDER.compare);
    const pairs = values.map((one) => [one, `${words(one)} (${counts.get(one)})`]);
    const chosen = query.get(name) || "";
    const all = [["", "all"], ...pairs].map(([one, text]) => option(one, text, one === chosen));
    return field("select", name, name, {}, all);
  });
  const clear = { type: "button", id: "clear", onclick: () => go("episodes", "", true) };
  const onsubmit = (event) => event.preventDefault();
  const look = { role: "search", "aria-label": "Filter the episodes" };
  return h(
    "form.filters.card",
    { ...look, oninput: changed, onsubmit },
    field("input", "task", "task contains", { type: "search", value: query.get("task") || "" }),
    choices,
    h("button", clear, "Clear filters"),
  );
}
