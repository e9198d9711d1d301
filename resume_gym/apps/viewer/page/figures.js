// Tables of figures: before and after, agents side by side, pairs of agents.

// Labels of figures whose names in the files are unclear.
const LABELS = {
  addressed_share: "share that addresses a grader",
  best_of: "best reward of k episodes",
  by_weakness: "mean reward by weakness",
  churn: "edits that leave no trace (share)",
  comparison_size: "comparisons with the group (root mean square)",
  content: "reward from content",
  edit_change: "change of the document's worth by an edit",
  edits: "edits an episode",
  edits_better: "edits that raise the document's worth (share)",
  edits_worse: "edits that lower the document's worth (share)",
  entropy: "entropy (nats a token)",
  equal_answers: "share of the commonest call sequence",
  equal_groups: "groups of equal rewards (share)",
  equal_groups_left: "groups of equal rewards, even compared (share)",
  failed: "episodes without a reward",
  failed_edits: "failed edits an episode",
  failed_share: "edits that failed",
  feedback_gap: "log-probability gap to the teacher or after a hint",
  ref_kl: "estimated KL(policy || teacher)",
  feedback_weight: "weight of the feedback",
  gap: "log-probability gap of sampler and trainer",
  gradient_norm: "gradient norm",
  floor: "floor (swapped words)",
  growth: "words written per word lost",
  interval: "95 % interval",
  judged: "changed and judged",
  layout: "reward from layout",
  layout_pass: "fits the page",
  layout_pass_rate: "fits the page",
  lines: "lines of the document",
  malformed: "malformed calls an episode",
  marked_turns: "turns with a hint",
  masked: "masked tokens (share)",
  masked_high: "masked, ratio too high (share)",
  masked_low: "masked, ratio too low (share)",
  masked_rollout: "masked, whole rollout (share)",
  mean: "difference",
  moved_share: "share that moves lines",
  opener_share: "share of the commonest opening word",
  p_holm: "p (Holm)",
  phrase_share: "share of the commonest new phrase",
  prompt_information: "information of answers on the task",
  ratio: "importance ratio, mean",
  ratio_max: "importance ratio, maximum",
  ratio_std: "importance ratio, sd",
  safe_harbour: "share that deletes a line and submits",
  reward: "mean reward",
  reward_sd: "sd of the reward",
  score: "score (0 to 100)",
  seconds_lag: "lag of sampling, in seconds",
  several_calls: "several calls in a turn",
  staleness: "age of the weights, in steps",
  staleness_max: "age of the weights, maximum",
  submit_rate: "submitted",
  tool_syntax: "reward from tool calls",
  turns: "turns an episode",
  unjudged: "unchanged, not judged",
  verdict: "judge, −1 to +1",
  word_drift: "share of words new since step 1",
  words: "words an episode",
};

function label(figure) {
  const name = String(figure).replace(/^verdict_/, "");
  return Object.hasOwn(LABELS, name) ? LABELS[name] : words(name);
}

// A table that scrolls sideways; its rows are made by `figureRow`.
function figureTable(title, heads, rows) {
  const head = heads.map((one) => h("th.number", { scope: "col" }, one));
  const table = h("table.figures", h("thead", h("tr", h("td"), head)), h("tbody", rows));
  const sideways = h("p.muted.sideways", `${heads.length} columns: scroll the table sideways →`);
  return [
    heads.length > 2 ? sideways : null,
    h("div.scroll.card", { tabindex: 0, role: "region", "aria-label": title }, table),
  ];
}

// Cells are texts, or elements `td`.
function figureRow(name, cells) {
  const row = cells.map((one) => (one instanceof Node ? one : h("td.number", one)));
  return h("tr", h("th", { scope: "row" }, name), row);
}

const isGroup = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

const isCount = (name) =>
  /(^failed|tokens|episodes|groups|tasks|unjudged|staleness_max)$/.test(name);
const fixedCount = (value) => (Number.isInteger(value) ? fixed(value, 0) : number(value));
const LEFT_OUT = ["errors", "versions", "step", "reward_std"]; // shown beside other figures

// Table of `columns`: figures by column name; nested figures get a heading of their own.
function figures(title, columns) {
  const names = Object.keys(columns).filter((one) => Object.keys(columns[one]).length);
  if (!names.length) return null;
  const all = names.map((name) => columns[name]);
  const keysOf = (parts) => [...new Set(parts.flatMap((one) => Object.keys(one || {})))];
  const isNested = (key) => all.some((one) => isGroup(one[key]));
  const rowsOf = (parts, keys, group = "") =>
    keys.map((key) => {
      const error = (at) => all[at].errors?.[group + key];
      const cells = parts.map((one, at) => figureCell(key, one?.[key], error(at), group));
      return figureRow(label(key), cells);
    });
  const keys = keysOf(all).filter((key) => !LEFT_OUT.includes(key));
  const groups = keys.filter(isNested).map((key) => {
    const inner = all.map((one) => one[key]);
    const heading = h("th", { scope: "colgroup", colspan: names.length + 1 }, label(key));
    const rows = rowsOf(inner, keysOf(inner), key + ".");
    return rows.length ? [h("tr.title", heading), rows] : null;
  });
  const single = keys.filter((key) => !isNested(key));
  const table = figureTable(title, names, [rowsOf(all, single), groups]);
  return h(
    "section",
    h("h2", title),
    table,
    h("p.muted", "± twice the standard error over tasks."),
  );
}

function figureCell(key, value, error, group) {
  if (key === "interval" && Array.isArray(value)) return range(value);
  if (typeof value !== "number") return known(value) ? brief(value) : "-";
  if (isCount(key) || group.startsWith("tasks")) return fixedCount(value);
  const isShare = /_(rate|share)$/.test(key);
  const text = (one) => (isShare ? fixed(100 * one, 0) : fixed(one, 2));
  const unit = isShare ? " %" : "";
  if (typeof error !== "number" || !error) return text(value) + unit;
  return h("td.number", text(value), h("span.muted", " ± ", text(error)), unit);
}

function brief(value) {
  if (typeof value === "number") return Number.isInteger(value) ? fixedCount(value) : number(value);
  if (Array.isArray(value)) return value.map(brief).join(", ");
  if (!isGroup(value)) return String(value);
  const parts = Object.entries(value).map(([name, one]) => words(name) + " " + brief(one));
  return parts.join(", ");
}

const range = (ends) => ends.map((one) => fixed(one, 2)).join(" to ");

// --- the result of an evaluation ----------------------------------------------------------------

// Figures of the agents, each with the interval of its mean reward, and their differences.
function result() {
  const columns = Object.entries(index.figures).map(([name, { reward, ...rest }]) => {
    const { interval, floor, of_tasks } = index.statistics[name] || {};
    const tasks = tasksOf(rest.tasks, of_tasks);
    const beside = { ...(interval && { interval }), ...(known(floor) && { floor }) };
    return [name, { reward, ...beside, ...rest, ...(known(tasks) && { tasks }) }];
  });
  const title = "Figures of each agent";
  return h("section", progress(), differences(), figures(title, Object.fromEntries(columns)));
}

// Progress of each agent in an unfinished evaluation, and the latest episodes.
function progress() {
  const { status, settings, agents, episodes } = index;
  if (status === "ended" || !status) return null;
  const planned = settings.limit ? " of " + settings.limit * (settings.rollouts || 1) : "";
  const rows = agents.map((name) => {
    const own = episodes.filter((one) => one.agent === name);
    const graded = own.filter((one) => known(one.reward));
    const failed = own.length - graded.length;
    return figureRow(name, [own.length + planned, meanReward(graded), failed]);
  });
  const heads = ["episodes", "mean reward so far", "not graded"];
  const latest = episodes.slice(-10).reverse();
  return [
    h("h2", "So far"),
    figureTable("So far", heads, rows),
    h("h2", "Latest episodes"),
    table(latest, new URLSearchParams("sort=-number")),
  ];
}

// A number of tasks; "1 of 4" if an agent has no graded episode of the others.
const tasksOf = (tasks, all) => (tasks < all ? `${tasks} of ${all}` : tasks);

// Differences in reward, and the tasks on which the second agent is better, the same and worse.
function differences() {
  const pairs = index.comparisons.filter((one) => isGroup(one.figures?.reward));
  if (!pairs.length) return null;
  const heads = [...["mean", "interval", "p", "p_holm"].map(label), "tasks better / same / worse"];
  const rows = pairs.map(({ first, second, figures, tasks, of_tasks, wins, ties, losses }) => {
    const { mean, interval, p, p_holm } = figures.reward;
    const counts = [wins, ties, losses];
    const on = tasks < of_tasks ? `, on ${tasksOf(tasks, of_tasks)} tasks` : "";
    return figureRow(`${second} − ${first}${on}`, [
      typeof mean === "number" ? signed(mean) : "-",
      Array.isArray(interval) ? range(interval) : "-",
      ...[p, p_holm].map((one) => (typeof one === "number" ? number(one) : "-")),
      counts.every(known) ? counts.join(" / ") : "-",
    ]);
  });
  const title = "Differences in mean reward";
  return [h("h2", title), figureTable(title, heads, rows), h("p.muted", pairs[0].method || "")];
}
