"use strict";
// Where the data come from, which page is shown, and keys. Texts of documents and models are only
// ever put into text nodes: nothing here reads a string as markup.

// An element: attributes, "on..." listeners, and children that are nodes or texts.
function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined));
  return element;
}

// Characters that nobody sees, or that turn the text around them, are told by their code.
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ud800-\udfff\u{e0000}-\u{e0fff}]/u;

function plain(text) {
  const nodes = [];
  let rest = String(text);
  for (let hit = ODD.exec(rest); hit; hit = ODD.exec(rest)) {
    if (hit.index) nodes.push(rest.slice(0, hit.index));
    const code = "U+" + hit[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    nodes.push(h("span", { class: "odd", title: "a character that is not seen" }, code));
    rest = rest.slice(hit.index + hit[0].length);
  }
  if (rest) nodes.push(rest);
  return nodes;
}

const words = (name) => String(name).replaceAll("_", " ");
const known = (value) => value !== null && value !== undefined && value !== "";

function number(value, decimals = 2) {
  if (typeof value !== "number") return "";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const tiny = value !== 0 && Math.abs(value) < 10 ** -decimals / 2;
  return tiny || Math.abs(value) >= 1e6 ? value.toExponential(1) : value.toFixed(decimals);
}

const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(2);

// --- data ---------------------------------------------------------------------------------------

let index = null; // what `Results.index` gives, with `episodes`: the rows as objects
const cache = new Map();

async function unpack(id) {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (one) => one.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

const isExported = document.getElementById("index") !== null;

async function loadIndex() {
  index = isExported ? await unpack("index") : await ask("index.json");
  index.episodes = index.rows.map((row, number) => {
    const episode = { number, kept: !index.chunks || index.chunks[number] !== null };
    index.columns.forEach((name, place) => { episode[name] = row[place]; });
    return episode;
  });
}

async function loadEpisode(number) {
  if (!index.episodes[number]) throw new Error("There is no episode " + number + ".");
  if (!index.episodes[number].kept) {
    throw new Error("This file holds a share of the episodes, and not this one: `resume-gym view` on the folder has all.");
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

const groupOf = (episode) => index.episodes.filter((one) => one.group === episode.group);

function nameOf(episode) {
  const where = index.kind === "run" ? ["step", episode.step, "rollout", episode.member] : [episode.agent, "rollout", episode.member];
  return where.join(" ");
}

// --- pages --------------------------------------------------------------------------------------

const main = document.getElementById("main");
let shown = 0; // counts, so that a page that comes late does not replace a newer one
let keysHere = {};

function place() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  return { path: path.split("/").filter(Boolean), query: new URLSearchParams(query) };
}

function go(path, query = null, replace = false) {
  const text = query ? query.toString() : "";
  const target = "#/" + path + (text ? "?" + text : "");
  if (replace) { history.replaceState(null, "", target); show(true); } else location.hash = target;
}

async function show(stays = false) {
  const mine = ++shown;
  const { path, query } = place(), address = location.hash;
  const number = Number(path[1]);
  keysHere = {};
  let content;
  try {
    if (path[0] === "episodes") content = tablePage(query);
    else if (path[0] === "episode") content = await episodePage(number);
    else if (path[0] === "compare") content = await comparePage(number, Number(path[2]));
    else content = overviewPage();
  } catch (problem) {
    content = [h("h1", {}, "This cannot be shown"), h("p", { class: "note", role: "alert" }, plain(problem.message))];
  }
  if (mine !== shown) return;
  main.dataset.shows = address;
  main.replaceChildren(...content.flat(Infinity).filter(Boolean));
  const title = main.querySelector("h1").textContent;
  document.title = title + " · " + index.name;
  for (const [id, name] of [["to-overview", undefined], ["to-episodes", "episodes"]]) {
    const link = document.getElementById(id);
    if (path[0] === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!stays) { window.scrollTo(0, 0); main.focus({ preventScroll: true }); }
}

const say = (text) => { document.getElementById("said").textContent = text; };

// --- keys ---------------------------------------------------------------------------------------

const KEYS = [
  ["1", "overview"], ["2", "episodes"], ["/", "filter the episodes by task"],
  ["j k", "next, previous episode (in the table: row)"], ["Enter", "open the row"],
  ["n p", "next, previous turn (in the table: page)"], ["c", "compare with the next of the group"],
  ["t", "tokens of the episode"], ["u", "back to the table"], ["?", "this help"],
];
const help = document.getElementById("help");

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const anywhere = {
    1: () => go(""), 2: () => go("episodes"), u: () => go("episodes", lastQuery),
    "?": () => help.showModal(),
    "/": () => { document.getElementById("filter-task") ? document.getElementById("filter-task").focus() : go("episodes"); },
  };
  const act = keysHere[event.key] || anywhere[event.key];
  if (act) { event.preventDefault(); act(); }
}

async function start() {
  document.getElementById("keys").append(...KEYS.flatMap(([keys, does]) => [
    h("dt", {}, keys.split(" ").map((key) => [h("kbd", {}, key), " "])), h("dd", {}, does),
  ]));
  document.getElementById("help-button").addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", onKey);
  // the link to the content must not be taken for a page
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
  try {
    await loadIndex();
  } catch (problem) {
    document.getElementById("loading").replaceWith(h("p", { class: "note", role: "alert" }, plain(problem.message)));
    return;
  }
  document.getElementById("name").replaceChildren(...plain(index.name));
  window.addEventListener("hashchange", () => show());
  show();
}
