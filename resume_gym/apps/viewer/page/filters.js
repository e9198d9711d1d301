"use strict";
// The form that filters and sorts the table.

// The table again with other settings; what is in focus stays so.
async function change(settings) {
  const query = new URLSearchParams(place().query);
  if (!("page" in settings)) query.delete("page");
  for (const [name, value] of Object.entries(settings)) {
    if (value === "" || value === null) query.delete(name);
    else query.set(name, value);
  }
  await keeping(() => go("episodes", query, true)); // before any other key is heard
}

function filters(query) {
  const boxes = CHOICES.map(([name, title]) => {
    const counts = new Map();
    for (const one of index.episodes)
      for (const value of valuesOf(one, name))
        if (value) counts.set(value, (counts.get(value) || 0) + 1);
    if (counts.size < 2 && name !== "flag") return null;
    const values = [...counts.keys()].sort(new Intl.Collator("en", { numeric: true }).compare);
    return h(
      "label",
      {},
      title,
      h(
        "select",
        { id: "filter-" + name, onchange: (event) => change({ [name]: event.target.value }) },
        option("", "all", false),
        values.map((value) =>
          option(value, `${value} (${counts.get(value)})`, query.get(name) === value),
        ),
      ),
    );
  });
  let waits = 0; // typing filters once it pauses
  const typed = (name) => (event) => {
    clearTimeout(waits);
    const { value } = event.target;
    waits = setTimeout(() => place().path[0] === "episodes" && change({ [name]: value }), 150);
  };
  const box = (name, title, type) =>
    h(
      "label",
      {},
      title,
      h("input", {
        id: "filter-" + name,
        type,
        step: "any",
        value: query.get(name) || "",
        oninput: typed(name),
      }),
    );
  const orders = COLUMNS.flatMap(([name, title]) => [
    [name + ",", title + " ↑"],
    [name + ",1", title + " ↓"],
  ]);
  const now = query.get("sort") ? query.get("sort") + "," + (query.get("down") || "") : "number,";
  const sort = h(
    "select",
    {
      id: "sort",
      onchange: (event) => {
        const [name, down] = event.target.value.split(",");
        change({ sort: name, down });
      },
    },
    orders.map(([value, title]) => option(value, title, value === now)),
  );
  return h(
    "form",
    {
      class: "filters card",
      role: "search",
      "aria-label": "Filter the episodes",
      onsubmit: (event) => event.preventDefault(),
    },
    box("text", "Text contains", "search"),
    box("task", "Task contains", "search"),
    boxes,
    box("least", "Reward at least", "number"),
    box("most", "Reward at most", "number"),
    h("label", {}, "Sort by", sort),
    h(
      "button",
      { type: "button", id: "clear", onclick: () => go("episodes", null, true) },
      "Clear filters",
    ),
  );
}
