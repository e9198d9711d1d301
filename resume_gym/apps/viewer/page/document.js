"use strict";
// The document: as a page, after any turn; original and final side by side.

const lines = (detail, at) =>
  detail.documents.after.at(at).map((one) => detail.documents.lines[one]);

function documentParts(detail) {
  if (detail.documents.after.length) {
    return [
      h("h2", {}, "The page"),
      pagePart(detail),
      h("h2", {}, "Original and final"),
      sides(lines(detail, 0), lines(detail, -1), "original", "final"),
    ];
  }
  if (!detail.text) return null;
  return [h("h2", {}, "Last observation"), h("pre", { class: "card" }, plain(detail.text))];
}

function pagePart(detail) {
  const box = h("div", { class: "page", tabindex: 0, role: "region", "aria-label": "The page" });
  const count = h("span", { class: "muted" });
  const last = detail.documents.after.length - 1;
  const draw = (at) => {
    const rows = pageRows(detail, at);
    box.replaceChildren(sheet(rows, detail.rules));
    count.textContent = `${rows.length} of ${detail.rules.page_lines} lines`;
  };
  const chosen = (event) => {
    draw(Number(event.target.value));
    say(count.textContent);
  };
  const options = moments(detail.documents.after).map(([at, title]) =>
    option(at, title, at === last),
  );
  draw(last);
  const choose = h("select", { id: "moment", onchange: chosen }, options);
  const legend = h(
    "span",
    { class: "muted" },
    h("mark", { class: "changed" }, "green"),
    ": not in the original",
  );
  return [h("div", { class: "row" }, h("label", {}, "Page ", choose), count, legend), box];
}

// Where the document is another than before, with what to call it.
function moments(after) {
  const last = after.length - 1;
  const title = (at) =>
    at === last ? "at the end" : at ? "after turn " + at : "before the first turn";
  const differs = (at) => String(after[at]) !== String(after[at - 1]);
  return after
    .map((_, at) => [at, title(at)])
    .filter(([at]) => at === 0 || at === last || differs(at));
}

// Rows of the page: text, whether it goes on with the row before, whether its line is new.
function pageRows(detail, at) {
  const { after, lines: texts, wrapped } = detail.documents;
  const original = new Set(after[0]);
  if (after[at].length === 1 && texts[after[at][0]] === "") return [];
  return after[at].flatMap((line) =>
    (wrapped[line] || [texts[line]]).map((text, place) => ({
      text,
      goesOn: place > 0,
      isNew: !original.has(line),
    })),
  );
}

// The page with its free lines, its right edge, and its lower edge, over which rows may go.
function sheet(rows, { page_lines: room, page_width: width }) {
  const free = Math.max(0, room - rows.length);
  const items = rows.map(({ text, goesOn, isNew }, place) => {
    const classes = { "goes-on": goesOn, changed: isNew, over: place >= room };
    const set = Object.keys(classes).filter((one) => classes[one]);
    const attributes = { "data-row": goesOn ? "·" : place + 1, class: set.join(" ") || null };
    return h("li", attributes, plain(text));
  });
  const blank = Array.from({ length: free }, (_, at) =>
    h("li", { class: "free", "data-row": rows.length + at + 1 }),
  );
  const over = rows.length - room;
  const told = over > 0 ? `, ${over} over` : free ? `, ${free} to spare` : "";
  const edge = h(
    "li",
    { class: "edge" },
    `the page ends here: ${room} lines of ${width} characters${told}`,
  );
  const list = h("ol", {}, items.slice(0, room), blank, edge, items.slice(room));
  list.style.setProperty("--page-width", width + "ch");
  return list;
}
