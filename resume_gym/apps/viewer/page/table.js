// The episodes: filtered, sorted, a page of rows at a time. All of its state is in the address.

const ROWS = 50;
// Name, title, class, and what a cell holds if not the value.
const COLUMNS = [
  ["number", "#", "number", numberCell],
  ["agent", "agent", "wide"],
  ["step", "step", "number"],
  ["task", "task", "wide"],
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
const CHOICES = [
  ["agent", "Agent"],
  ["step", "Step"],
  ["weakness", "Weakness"],
  ["outcome", "Outcome"],
  ["flags", "Flag"],
];
const ORDER = new Intl.Collator("en", { numeric: true });
let lastQuery = new URLSearchParams(); // of the table, so that an episode leads back to it
let lastEpisode = null; // that was open, so that the table goes on from there

const valuesOf = (episode, name) => [episode[name] ?? ""].flat().map(String);

function matching(query) {
  const task = (query.get("task") || "").toLowerCase();
  const wanted = CHOICES.map(([name]) => [name, query.get(name)]).filter(([, value]) => value);
  return index.episodes.filter(
    (one) =>
      wanted.every(([name, value]) => valuesOf(one, name).includes(value)) &&
      one.task.toLowerCase().includes(task),
  );
}

// By the column that the query names, with a minus in front downwards.
function sorted(episodes, query) {
  const sort = query.get("sort") || "";
  const name = sort.replace("-", "");
  if (!COLUMNS.some(([one]) => one === name)) return episodes;
  const key = (one) => (name === "flags" ? one.flags.length : one[name]);
  return [...episodes].sort((a, b) => {
    const [left, right] = [key(a), key(b)];
    // what is missing comes last
    if (!known(left) || !known(right)) return known(right) - known(left) || a.number - b.number;
    const by = typeof left === "number" ? left - right : ORDER.compare(left, right);
    return (sort === name ? by : -by) || a.number - b.number;
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
  const rewards = found.filter((one) => known(one.reward)).map((one) => one.reward);
  const sum = rewards.reduce((a, b) => a + b, 0);
  const mean = rewards.length ? ", mean reward " + fixed(sum / rewards.length, 2) : "";
  const count = found.length + " of " + index.episodes.length + " episodes" + mean;
  say(count);
  const button = (title, to) => {
    const disabled = to < 1 || to > pages;
    return h("button", { type: "button", disabled, onclick: () => turn(to) }, title);
  };
  const pager = () =>
    h(
      "div.row",
      button("‹ Previous", page - 1),
      `page ${page} of ${pages}`,
      button("Next ›", page + 1),
    );
  const empty = index.episodes.length ? "No episode is like that." : "No episode has ended yet.";
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
  const sort = query.get("sort") || "number";
  const heads = columns.map(([name, title, kind]) => {
    const [arrow, order] =
      { [name]: ["↑", "ascending"], ["-" + name]: ["↓", "descending"] }[sort] || [];
    const next = () => change({ sort: sort === name ? "-" + name : name });
    const content = title + (arrow ? "\u00a0" + arrow : "");
    const button = h("button", { type: "button", id: "by-" + name, onclick: next }, content);
    return h("th", { scope: "col", class: kind, "aria-sort": order || "none" }, button);
  });
  const cells = rows.map((one) =>
    columns.map(([name, , , content]) => {
      if (!known(one[name])) return "-";
      if (content) return content(one);
      return typeof one[name] === "number" ? number(one[name]) : one[name];
    }),
  );
  const labels = columns.map(([name, title, kind]) => [title, `${kind} ${name}`]);
  return cards("Episodes", heads, labels, cells);
}

// A table whose rows become cards on a phone, with labels, and open the link in them.
function cards(title, heads, labels, rows) {
  const open = (event) => {
    if (!event.target.closest("a")) event.target.closest("tr").querySelector("a")?.click();
  };
  const cell = (content, at) =>
    h("td", { "data-label": labels[at][0], class: labels[at][1] }, content);
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

// In words: a bad episode has so many that chips would fill the screen.
function flagsCell({ flags }) {
  if (!flags.length) return h("span.muted", "none");
  const worse = flags.filter((one) => one.startsWith("worse ")).map((one) => one.slice(6));
  const other = flags.filter((one) => !one.startsWith("worse "));
  return [...other, ...(worse.length ? ["worse: " + worse.join(", ")] : [])].join(", ");
}

function toRow(number) {
  const opened = document.querySelector(`.episodes a[href="#/episode/${number}"]`);
  opened?.focus({ preventScroll: true });
  opened?.scrollIntoView({ block: "center" });
}

// --- filters ------------------------------------------------------------------------------------

// The table again with other settings; what is in focus stays so.
async function change(settings) {
  const query = new URLSearchParams(place().query);
  for (const [name, value] of Object.entries({ page: "", ...settings })) {
    if (value === "") query.delete(name);
    else query.set(name, value);
  }
  await keeping(() => go("episodes", query, true)); // before any other key is heard
}

function filters(query) {
  let waits = 0; // typing filters once it pauses
  const changed = (event) => {
    clearTimeout(waits);
    const { name, value } = event.target;
    const act = () => place().path[0] === "episodes" && change({ [name]: value });
    waits = setTimeout(act, event.target.matches("select") ? 0 : 150);
  };
  const field = (tag, name, title, attributes, content) =>
    h("label", title, h(tag, { id: "filter-" + name, name, ...attributes }, content));
  const choice = (name, title, options) => {
    const pairs = options.map(([value, text]) => option(value, text, query.get(name) === value));
    return field("select", name, title, {}, pairs);
  };
  const choices = CHOICES.map(([name, title]) => {
    const counts = new Map();
    for (const value of index.episodes.flatMap((one) => valuesOf(one, name)))
      if (value) counts.set(value, (counts.get(value) || 0) + 1);
    if (counts.size < 2 && name !== "flags") return null;
    const values = [...counts.keys()].sort(ORDER.compare);
    return choice(name, title, [
      ["", "all"],
      ...values.map((one) => [one, `${one} (${counts.get(one)})`]),
    ]);
  });
  const clear = { type: "button", id: "clear", onclick: () => go("episodes", "", true) };
  return h(
    "form.filters.card",
    {
      role: "search",
      "aria-label": "Filter the episodes",
      oninput: changed,
      onsubmit: (event) => event.preventDefault(),
    },
    field("input", "task", "Task contains", { type: "search", value: query.get("task") || "" }),
    choices,
    h("button", clear, "Clear filters"),
  );
}
