// Diffs: of an edit, and of two documents side by side.

const SIGNS = { minus: "− ", plus: "+ " };
const line = (kind, ...content) =>
  h("span.line." + kind, h("span.muted", SIGNS[kind] || "  "), content);

function diffOf(text) {
  const body = text.split(/\n(?=@@ )/).map((hunk) => {
    const [head, ...rows] = hunk.split("\n");
    const [old, fresh] = ["-", "+"].map((sign) =>
      rows.filter((row) => row[0] === sign).map((row) => row.slice(1)),
    );
    // one line replaces one line: mark the words that differ
    const isOne = old.length === 1 && fresh.length === 1;
    const lines = isOne
      ? changed(old[0], fresh[0])
      : [old.map((row) => line("minus", row)), fresh.map((row) => line("plus", row))];
    const other = rows.filter((row) => !"-+".includes(row[0])).map((row) => line("same", row));
    const side = head.endsWith(",0 @@") ? /-(\d+)/ : /\+(\d+)/; // deleted lines have an old number
    const where = head.startsWith("@@") ? "line " + head.match(side)[1] : head;
    return [h("span.line.head", where), lines, other];
  });
  return h("div.code.diff", body);
}

function changed(before, after) {
  const [old, fresh] = [before, after].map((one) => one.split(/(?<=\s)|(?=\s)/u));
  const most = Math.min(old.length, fresh.length);
  let [head, tail] = [0, 0];
  while (head < most && old[head] === fresh[head]) head += 1;
  while (tail < most - head && old.at(-1 - tail) === fresh.at(-1 - tail)) tail += 1;
  return Object.entries({ minus: old, plus: fresh }).map(([kind, all]) => {
    const end = all.length - tail;
    const middle = all.slice(head, end).join("");
    const mark = middle ? h("mark", middle) : null;
    return line(kind, all.slice(0, head).join(""), mark, all.slice(end).join(""));
  });
}

// Pairs of equal, replaced, removed and added lines, by longest common subsequence.
function aligned(a, b) {
  const wide = b.length + 1;
  // long texts count as completely rewritten, since alignment would take seconds
  const isShort = a.length * b.length < 4e6;
  const best = new Uint32Array(isShort ? (a.length + 1) * wide : 0);
  for (let i = a.length - 1; isShort && i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const [down, right] = [best[(i + 1) * wide + j], best[i * wide + j + 1]];
      best[i * wide + j] = a[i] === b[j] ? best[(i + 1) * wide + j + 1] + 1 : Math.max(down, right);
    }
  }
  const pairs = [];
  let [i, j] = [0, 0];
  let [gone, came] = [[], []];
  const flush = () => {
    const count = Math.max(gone.length, came.length);
    for (let at = 0; at < count; at += 1) pairs.push([gone[at], came[at]]);
    [gone, came] = [[], []];
  };
  while (i < a.length || j < b.length) {
    if (isShort && i < a.length && j < b.length && a[i] === b[j]) {
      flush();
      pairs.push([a[i++], b[j++]]);
    } else if (
      j >= b.length ||
      (i < a.length && best[(i + 1) * wide + j] >= best[i * wide + j + 1])
    )
      gone.push(a[i++]);
    else came.push(b[j++]);
  }
  flush();
  return pairs;
}

function sides(left, right, leftName, rightName) {
  const side = (kind, row) => (row === undefined ? h("span.line.empty") : line(kind, row));
  const pairs = aligned(left, right);
  const body = pairs.map(([a, b]) => {
    if (a === b) return [line("same", a), line("same.twin", a)];
    if (a === undefined || b === undefined) return [side("minus", a), side("plus", b)];
    return changed(a, b);
  });
  const heads = [h("h3", SIGNS.minus, leftName), h("h3", SIGNS.plus, rightName)];
  return [
    pairs.every(([a, b]) => a === b) ? h("p", "They are equal.") : null,
    h("div.card.code.diff.sides", heads, body),
  ];
}
