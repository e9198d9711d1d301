"use strict";
// What differs: in the diff of an edit, and between two documents side by side.

function diffOf(text) {
  const rows = text.split("\n"),
    body = [];
  for (let at = 0; at < rows.length; at += 1) {
    const [row, next] = [rows[at], rows[at + 1]];
    if (row.startsWith("@@")) body.push(h("span", { class: "line head" }, plain(row)));
    else if (
      row[0] === "-" &&
      next &&
      next[0] === "+" &&
      (rows[at - 1] || "@")[0] !== "-" &&
      (rows[at + 2] || "@")[0] !== "+"
    ) {
      // one line for another: the words that differ are marked
      body.push(...changed(row.slice(1), next.slice(1)));
      at += 1;
    } else body.push(line(row[0] === "-" ? "minus" : "plus", plain(row.slice(1))));
  }
  return h("div", { class: "code diff" }, body);
}

const SIGNS = { minus: "− ", plus: "+ " };
const line = (kind, content) =>
  h("span", { class: "line " + kind }, h("span", { class: "muted" }, SIGNS[kind] || "  "), content);

function changed(before, after) {
  const [old, fresh] = [before, after].map((one) => one.split(/(?<=\s)|(?=\s)/u));
  let head = 0,
    tail = 0;
  const most = Math.min(old.length, fresh.length);
  while (head < most && old[head] === fresh[head]) head += 1;
  while (tail < most - head && old.at(-1 - tail) === fresh.at(-1 - tail)) tail += 1;
  const parts = (all) =>
    [all.slice(0, head), all.slice(head, all.length - tail), all.slice(all.length - tail)].map(
      (some) => some.join(""),
    );
  return [
    ["minus", old],
    ["plus", fresh],
  ].map(([kind, all]) => {
    const [first, middle, last] = parts(all);
    return line(kind, [plain(first), middle ? h("mark", {}, plain(middle)) : null, plain(last)]);
  });
}

// Pairs of equal, replaced, removed and added lines, by longest common subsequence.
function aligned(a, b) {
  let head = 0,
    tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  while (tail < Math.min(a.length, b.length) - head && a.at(-1 - tail) === b.at(-1 - tail))
    tail += 1;
  const old = a.slice(head, a.length - tail),
    fresh = b.slice(head, b.length - tail),
    wide = fresh.length + 1;
  const pairs = a.slice(0, head).map((one) => [one, one]);
  // of texts so long that this would take seconds, the middle counts as rewritten
  const best = old.length * fresh.length < 4e6 ? new Uint32Array((old.length + 1) * wide) : null;
  for (let i = old.length - 1; best && i >= 0; i -= 1) {
    for (let j = fresh.length - 1; j >= 0; j -= 1) {
      best[i * wide + j] =
        old[i] === fresh[j]
          ? best[(i + 1) * wide + j + 1] + 1
          : Math.max(best[(i + 1) * wide + j], best[i * wide + j + 1]);
    }
  }
  let gone = [],
    came = [],
    i = 0,
    j = 0;
  const flush = () => {
    for (let at = 0; at < Math.max(gone.length, came.length); at += 1)
      pairs.push([gone[at], came[at]]);
    gone = [];
    came = [];
  };
  while (i < old.length || j < fresh.length) {
    if (best && i < old.length && j < fresh.length && old[i] === fresh[j]) {
      flush();
      pairs.push([old[i++], fresh[j++]]);
    } else if (
      j >= fresh.length ||
      (i < old.length && (!best || best[(i + 1) * wide + j] >= best[i * wide + j + 1]))
    )
      gone.push(old[i++]);
    else came.push(fresh[j++]);
  }
  flush();
  return [...pairs, ...a.slice(a.length - tail).map((one) => [one, one])];
}

function sides(left, right, leftName, rightName) {
  const body = [
    h("h3", {}, SIGNS.minus, plain(leftName)),
    h("h3", {}, SIGNS.plus, plain(rightName)),
  ];
  const blank = () => h("span", { class: "line empty" });
  const pairs = aligned(left, right);
  for (const [a, b] of pairs) {
    if (a === b)
      body.push(line("same", plain(a)), h("span", { class: "line same twin" }, "  ", plain(a)));
    else if (a !== undefined && b !== undefined) body.push(...changed(a, b));
    else
      body.push(
        a === undefined ? blank() : line("minus", plain(a)),
        b === undefined ? blank() : line("plus", plain(b)),
      );
  }
  const equal = pairs.every(([a, b]) => a === b);
  return [
    equal ? h("p", {}, "They are equal.") : null,
    h("div", { class: "card code diff sides" }, body),
  ];
}
