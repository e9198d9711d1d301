// DOM helpers, loading of data and routing. Texts of documents and models only enter text nodes, so
// no string is parsed as markup.

// Creates an element from tag and classes ("p.muted"), optional attributes and "on..." listeners,
// and children: nodes, texts, and lists of these.
const h = (name, ...rest) => fill((tag) => document.createElement(tag), name, rest);
const s = (name, ...rest) =>
  fill((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag), name, rest);

function fill(create, name, rest) {
  const [tag, ...classes] = name.split(".");
  const [attributes, children] =
    rest[0]?.constructor === Object ? [rest[0], rest.slice(1)] : [{}, rest];
  const element = create(tag);
  for (const [key, value] of Object.entries({ class: classes.join(" ") || null, ...attributes })) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false)
      element.setAttribute(key, value === true ? "" : value);
  }
  const present = children.flat(Infinity).filter((one) => one !== null && one !== undefined);
  element.append(...present.flatMap((one) => (one instanceof Node ? one : visible(one))));
  return element;
}

// Invisible characters, and those that change the direction of text.
const ODD =
  /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ud800-\udfff\u{e0000}-\u{e0fff}])/u;

// Replaces such characters by their code points.
function visible(text) {
  return String(text)
    .split(ODD)
    .map((part, at) => {
      if (at % 2 === 0) return part;
      const code = "U+" + part.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      return h("span.odd", { title: "invisible character" }, code);
    });
}

// Entry of a select element, which can hold only text.
function option(value, text, selected) {
  const texts = visible(text).map((one) => one.textContent ?? one);
  return new Option(texts.join(""), value, selected, selected);
}

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
// A value of JSON as text: an item of a list and an entry of an object is a line each.
function asLines(value, depth = 0) {
  const indent = "\n" + "  ".repeat(depth);
  if (value === null || typeof value !== "object") return String(value).replaceAll("\n", indent);
  if (!Array.isArray(value)) {
    const entries = Object.entries(value).filter(([, one]) => known(one) && one !== false);
    const lines = entries.map(([name, one]) => `${words(name)}: ${asLines(one, depth + 1)}`);
    return lines.join(indent);
  }
  if (value.length === 1) return asLines(value[0], depth);
  const items = value.map((one) => "• " + asLines(one, depth + 1)).join(indent);
  return depth ? indent + items : items;
}
const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
const words = (name) => String(name).replaceAll("_", " ");
const known = (value) => value !== null && value !== undefined && value !== "";

// Formats a number with a typographic minus; rounds half to even, as the tables of `eval` do.
function fixed(value, decimals) {
  const scaled = Math.abs(value) * 10 ** decimals;
  const tie = scaled % 1 === 0.5 && Number.isInteger(value * 2 ** (decimals + 1));
  const even = (Math.sign(value) * 2 * Math.round(scaled / 2)) / 10 ** decimals;
  return (tie ? even : value).toFixed(decimals).replace("-", "−");
}

// Formats a number with two decimals, two significant digits if small, or a power of ten.
function number(value) {
  const size = Math.abs(value);
  if (size >= 1e6 || (value && size < 1e-3))
    return value.toExponential(1).replace("e+", "e").replaceAll("-", "−");
  return fixed(value, value && size < 0.1 ? 1 - Math.floor(Math.log10(size)) : 2);
}

const signed = (value) => (value > 0 ? "+" : "") + fixed(value, 2);

// --- data ---------------------------------------------------------------------------------------

let index = null; // result of `FolderContents.index`, with the rows as objects in `episodes`
const cache = new Map();
const isExported = document.getElementById("index") !== null;

async function unpack(id) {
  const text = atob(document.getElementById(id).textContent);
  const packed = Uint8Array.from(text, (one) => one.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

async function loadIndex() {
  const path = "index.json" + (index?.seen ? "?seen=" + index.seen : "");
  const fresh = isExported ? await unpack("index") : await ask(path);
  const episodes = fresh.continues ? index.episodes : []; // rows that changed since are sent
  for (const row of fresh.rows) {
    const one = Object.fromEntries(row.map((value, at) => [fresh.columns[at], value]));
    one.kept = !fresh.chunks || fresh.chunks[one.number] !== null;
    episodes[one.number] = one;
  }
  index = { ...fresh, episodes };
}

async function loadEpisode(number) {
  if (!index.episodes[number]) throw new Error("There is no episode " + number + ".");
  if (!index.episodes[number].kept) {
    throw new Error(
      "This episode is not in the exported file; `resume-gym view` on the folder shows all episodes.",
    );
  }
  const key = isExported ? "chunk-" + index.chunks[number] : "episode/" + number + ".json";
  if (!cache.has(key)) {
    if (cache.size > 40) cache.delete(cache.keys().next().value);
    cache.set(key, isExported ? unpack(key) : ask(key));
  }
  try {
    const value = await cache.get(key);
    return isExported ? value[number] : value;
  } catch (problem) {
    cache.delete(key);
    throw problem;
  }
}

const groupOf = (episode) =>
  index.episodes
    .filter((one) => one.group === episode.group)
    .sort((a, b) => ORDER.compare(shortName(a), shortName(b)));

// Names of an episode: within its group, and among all on its task.
const shortName = ({ agent, member }) => (agent ? agent + ", " : "") + "rollout " + member;
const nameOf = (episode) =>
  (known(episode.step) ? `step ${episode.step}, ` : "") + shortName(episode);

// --- pages --------------------------------------------------------------------------------------

const main = document.getElementById("main");
let shown = 0; // number of requested pages, so that a late one does not replace a newer one
let keysHere = {}; // keyboard shortcuts of the current page

function place() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  return { path: path.split("/").filter(Boolean), query: new URLSearchParams(query) };
}

async function go(path, query = "", replace = false) {
  const target = "#/" + path + (String(query) ? "?" + query : "");
  if (replace) {
    history.replaceState(null, "", target);
    await show(true);
  } else location.hash = target;
}

// Content and keyboard shortcuts of a page.
function pageOf([name, ...numbers], query) {
  const [first, second] = numbers.map(Number);
  if (index.kind === "list") return name === "runs" ? runsPage(query) : listPage(query);
  if (name === "episodes") return tablePage(query);
  if (name === "episode") return episodePage(first);
  if (name === "search" && !isExported) return searchPage(query);
  if (name === "compare") return comparePage(first, second);
  return { content: overviewPage(), keys: {} };
}

const alarm = (problem) => h("p.note", { role: "alert" }, problem.message);

async function show(stays = false) {
  const mine = ++shown;
  const { path, query } = place();
  const address = location.hash;
  let made;
  try {
    made = await pageOf(path, query);
  } catch (problem) {
    made = { content: [h("h1", "This cannot be shown"), alarm(problem)], keys: {} };
  }
  if (mine !== shown) return;
  keysHere = made.keys;
  main.dataset.shows = address;
  main.replaceChildren(...made.content.flat(Infinity).filter(Boolean));
  document.title = main.querySelector("h1").textContent + " · " + index.name + " · Resume Gym";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === "#/" + (path[0] ?? "")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (stays) return;
  window.scrollTo(0, 0);
  main.focus({ preventScroll: true });
  if (path[0] === "episodes") toRow(lastEpisode);
  if (path[0] === "episode") lastEpisode = Number(path[1]);
  if (query.has("turn")) toTurn(query.get("turn"));
}

// Moves the focus to the next (`by` 1) or previous (-1) element.
function moveFocus(selector, by) {
  const all = [...document.querySelectorAll(selector)];
  const now = all.findIndex((one) => one.contains(document.activeElement));
  const next = now < 0 ? all.at(by > 0 ? 0 : -1) : all[now + by];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "nearest" });
}

const say = (text) => {
  document.getElementById("said").textContent = text;
};
