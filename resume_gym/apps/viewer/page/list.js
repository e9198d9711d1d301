"use strict";
// The runs and evaluations of a folder, the last to change first.

const WHEN = { dateStyle: "medium", timeStyle: "short" };

function listPage() {
  const heads = ["name", "kind", "environment", "steps", "reward", "last change"];
  const head = heads.map((one) => h("th", { scope: "col", role: "columnheader" }, one));
  const opens =
    ({ href, problem }) =>
    (event) => {
      if (!problem && !event.target.closest("a")) location.assign(href);
    };
  const body = index.runs.map((run) =>
    h("tr", { role: "row", onclick: opens(run) }, listCells(run, heads)),
  );
  return [
    h("h1", {}, "Runs in ", plain(index.name)),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "episodes", role: "table", "aria-label": "Runs and evaluations" },
        h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
        h("tbody", { role: "rowgroup" }, body),
      ),
    ),
  ];
}

function listCells(run, heads) {
  const [done, planned] = run.steps || [];
  const texts = [
    run.problem ? "cannot be read: " + run.problem : run.kind,
    run.env,
    known(done) ? done + (known(planned) ? " of " + planned : "") : null,
    rewardsOf(run),
    run.changed ? new Date(run.changed).toLocaleString(undefined, WHEN) : null,
  ].map((one) => plain(known(one) ? one : "-"));
  const name = run.problem
    ? h("b", {}, plain(run.name))
    : h("a", { href: run.href }, plain(run.name));
  return [name, ...texts].map((content, at) =>
    h(
      "td",
      { role: "cell", "data-label": heads[at], class: [0, 1, 4].includes(at) ? "wide" : "" },
      content,
    ),
  );
}

// Of a run that of its last step; of an evaluation those of its best agents.
function rewardsOf({ rewards }) {
  const told = Object.entries(rewards || {}).filter(([, one]) => typeof one === "number");
  const best = told.sort(([, a], [, b]) => b - a).map(([agent, one]) => `${agent} ${signed(one)}`);
  return best.slice(0, 3).join(", ") + (best.length > 3 ? ", ..." : "");
}
