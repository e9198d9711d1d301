// The document: as a page, and original and final side by side.

const lines = (detail, at) =>
  detail.documents.after.at(at).map((one) => detail.documents.lines[one]);

function documentParts(detail) {
  if (!detail.documents.after.length)
    return detail.text ? [h("h2", "Last observation"), h("pre.card", detail.text)] : null;
  return [
    h("h2", "The page"),
    pagePart(detail),
    h("h2", "Original and final"),
    sides(lines(detail, 0), lines(detail, -1), "original", "final"),
  ];
}

function pagePart(detail) {
  const box = h("div.page", { tabindex: 0, role: "region", "aria-label": "The page" });
  const rows = pageRows(detail);
  box.append(sheet(rows, detail.rules));
  const count = h("span.muted", `${rows.length} of ${detail.rules.page_lines} lines`);
  const legend = h("span.muted", h("mark.changed", "green"), ": not in the original");
  const hint = h("span.muted.sideways", "scroll the page sideways →");
  return [h("div.row", count, legend, hint), box];
}

// Rows of the page: text, whether it continues the previous row, whether its line is new.
function pageRows(detail) {
  const { after, lines: texts, wrapped } = detail.documents;
  const original = new Set(after[0]);
  const last = after.at(-1);
  if (last.length === 1 && texts[last[0]] === "") return [];
  return last.flatMap((line) =>
    (wrapped[line] || [texts[line]]).map((text, place) => ({
      text,
      goesOn: place > 0,
      isNew: !original.has(line),
    })),
  );
}

// The page with its free lines, its right edge and its lower edge, which rows may exceed.
function sheet(rows, { page_lines: room, page_width: width }) {
  const items = rows.map(({ text, goesOn, isNew }, place) => {
    const kinds = [goesOn && ".goes-on", isNew && ".changed", place >= room && ".over"];
    return h("li" + kinds.filter(Boolean).join(""), { "data-row": goesOn ? "·" : place + 1 }, text);
  });
  const over = rows.length - room;
  const free = Array.from({ length: Math.max(0, -over) }, (_, at) =>
    h("li.free", { "data-row": rows.length + at + 1 }),
  );
  const rest = over > 0 ? `, ${over} over` : over < 0 ? `, ${-over} to spare` : "";
  const edge = h(
    "li.edge" + (over > 0 ? ".bad" : ""),
    `the page ends here: ${room} lines of ${width} characters${rest}`,
  );
  const list = h("ol", items.slice(0, room), free, edge, items.slice(room));
  list.style.setProperty("--page-width", width + "ch");
  return list;
}
