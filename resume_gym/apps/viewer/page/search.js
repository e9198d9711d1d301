// Search for a text in the episodes; the server reads them and stops after a while.

async function searchPage(query) {
  const text = (query.get("text") || "").trim();
  const list = h("ol.card.found");
  const more = h("div.row");
  if (text) await searchOn(text, 0, list, more);
  const content = [
    h("h1", "Search"),
    searchForm(text),
    text ? more : h("p.muted", "Case and line breaks do not matter. Words are found as a phrase."),
    text ? list : null,
  ];
  const keys = { j: () => moveFocus(".found a", 1), k: () => moveFocus(".found a", -1) };
  return { content, keys };
}

function searchForm(text) {
  const box = h("input", { id: "search-text", type: "search", value: text, maxlength: 200 });
  const onsubmit = (event) => {
    event.preventDefault();
    go("search", new URLSearchParams({ text: box.value }));
  };
  const places = "text in actions, replies, final texts, the judge's reasons and tasks";
  const label = h("label", places, box);
  const look = { role: "search", "aria-label": "Search the episodes", onsubmit };
  return h("form.search.card", look, label, h("button", "Search"));
}

// Adds the episodes that the server finds from row `start` on.
async function searchOn(text, start, list, more) {
  const { matches, next } = await ask("search.json?" + new URLSearchParams({ text, start }));
  if (matches.some((one) => !index.episodes[one.number])) await loadIndex();
  list.append(...matches.map(foundItem));
  list.hidden = !list.children.length;
  const all = counted(index.episodes.length, "episode");
  const searched = next === null ? `${all} searched` : `the first ${next} of ${all} searched`;
  const told = `${counted(list.children.length, "episode")} found, ${searched}`;
  say(told);
  const goOn = () => searchOn(text, next, list, more);
  const onclick = () => goOn().catch((problem) => more.append(alarm(problem)));
  const button = next === null ? null : h("button", { type: "button", onclick }, "Search on");
  more.replaceChildren(...[h("span", told), button].filter(Boolean));
}

function foundItem({ number, places, before, found, after }) {
  const row = index.episodes[number];
  const turn = places.map((one) => one.match(/^(?:action|reply) (\d+)$/)?.[1]).find(Boolean);
  const href = `#/episode/${number}` + (turn ? "?turn=" + turn : "");
  return h(
    "li",
    h("a", { href }, `${row.task}, ${nameOf(row)}`),
    h("span.muted", ` reward ${rewardOf(row)}; in ${places.join(", ")}`),
    h("p.code", "… ", onOneLine(before), h("mark", onOneLine(found)), onOneLine(after), " …"),
  );
}

const onOneLine = (text) => text.replace(/\s+/g, " ");
