"use strict";
// Curves over the steps of a run, and rewards as histograms.

const WIDTH = 360;
const HEIGHT = 190;
const LEFT = 44;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 24;
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 4", "1 4", "12 4"];
const BINS = 12; // about so many bars has a histogram

const colour = (place) => "var(--c" + (place % DASHES.length) + ")";

// Not Math.min(...values): a long run has more values than a call takes arguments.
const extent = (values) =>
  values.reduce(
    ([low, high], one) => [Math.min(low, one), Math.max(high, one)],
    [Infinity, -Infinity],
  );

// The distance of round numbers that part a range into about `parts`.
function stride(low, high, parts) {
  const raw = (high - low) / parts;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= raw) || power;
}

function ticks(low, high) {
  const step = stride(low, high, 4);
  const first = Math.ceil(low / step - 1e-6);
  const count = Math.floor(high / step + 1e-6) - first + 1;
  return Array.from({ length: count }, (_, at) => (first + at) * step);
}

// Ticks as texts, all with as many decimals as the finest needs.
function tickTexts(at) {
  const fits = (decimals) =>
    at.every((one) => Math.abs(one - Number(one.toFixed(decimals))) < 1e-9);
  const decimals = [0, 1, 2, 3].find(fits);
  const large = extent(at.map(Math.abs))[1] >= 1e5;
  return at.map((one) => (decimals === undefined || large ? number(one) : fixed(one, decimals)));
}

// --- curves -------------------------------------------------------------------------------------

// What a chart is drawn from: for each name its points, as steps and values.
function seriesOf(names) {
  return names.map((name, place) => {
    const told = index.metrics.filter((one) => typeof one[name] === "number");
    const points = told.map((one) => ({ step: one.step, value: one[name], sd: one.reward_std }));
    const counts = points.every((one) => Number.isInteger(one.value));
    return { name, place, points, text: (value) => number(value, counts ? 0 : 3) };
  });
}

// Evaluations on held-out tasks, as points.
function heldOut() {
  const last = index.metrics.at(-1).step;
  const stepOf = (name) => ({ before: 0, after: last })[name] ?? Number(name.replace("step ", ""));
  const { floor, ...played } = index.figures;
  const points = Object.entries(played)
    .filter(([, told]) => typeof told.reward === "number")
    .map(([name, told]) => ({ step: stepOf(name), value: told.reward }));
  const level = floor ? [0, last].map((step) => ({ step, value: floor.reward })) : [];
  const text = (value) => number(value, 3);
  const series = [
    { name: "on held-out tasks", place: 1, points, text, dots: true },
    { name: "floor, an agent that improves nothing", place: 2, points: level, text },
  ];
  return series.filter((one) => one.points.length);
}

// From steps and values to places in the picture, and back.
function frameOf(points, band) {
  const values = points.map((one) => one.value);
  const spread = band.flatMap((one) => [one.value - one.sd, one.value + one.sd]);
  let [low, high] = extent([...values, ...spread]);
  if (low === high) {
    low -= Math.abs(low) / 10 || 1;
    high += Math.abs(high) / 10 || 1;
  }
  const [first, last] = extent(points.map((one) => one.step));
  const wide = WIDTH - LEFT - RIGHT;
  const x = (step) => LEFT + wide * (last > first ? (step - first) / (last - first) : 0.5);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (high - low));
  const stepAt = (left) => first + ((last - first) * (left - LEFT)) / wide;
  return { low, high, first, last, x, y, stepAt };
}

function path(frame, points) {
  const to = ([step, value], place) =>
    (place ? "L" : "M") + frame.x(step).toFixed(1) + " " + frame.y(value).toFixed(1);
  return points.map(to).join("");
}

function axes(frame) {
  const across = ticks(frame.low, frame.high);
  const texts = tickTexts(across);
  const steps =
    frame.last > frame.first
      ? ticks(frame.first, frame.last).filter(Number.isInteger)
      : [frame.first];
  return [
    across.map((value, at) => [
      s("line", {
        class: "axis",
        x1: LEFT,
        x2: WIDTH - RIGHT,
        y1: frame.y(value),
        y2: frame.y(value),
      }),
      s("text", { x: LEFT - 6, y: frame.y(value) + 4, "text-anchor": "end" }, texts[at]),
    ]),
    s("text", { x: 2, y: HEIGHT - 6 }, "step"),
    steps.map((step) =>
      s("text", { x: frame.x(step), y: HEIGHT - 6, "text-anchor": "middle" }, number(step)),
    ),
  ];
}

function curve(frame, { place, points, dots }) {
  const line = {
    fill: "none",
    stroke: colour(place),
    "stroke-width": 2,
    "stroke-dasharray": DASHES[place % DASHES.length],
  };
  const dot = ({ step, value }) =>
    s("circle", { cx: frame.x(step), cy: frame.y(value), r: 3.5, fill: colour(place) });
  return dots || points.length === 1
    ? points.map(dot)
    : s("path", {
        d: path(
          frame,
          points.map((one) => [one.step, one.value]),
        ),
        ...line,
      });
}

// One standard deviation around the reward.
function spread(frame, band) {
  if (band.length < 2) return null;
  const above = band.map((one) => [one.step, one.value + one.sd]);
  const below = band.map((one) => [one.step, one.value - one.sd]).reverse();
  return s("path", { d: path(frame, [...above, ...below]) + "Z", fill: colour(0), opacity: 0.15 });
}

function chart(title, names) {
  const isReward = names[0] === "reward";
  const series = [...seriesOf(names), ...(isReward ? heldOut() : [])];
  const points = series.flatMap((one) => one.points);
  const band = isReward ? points.filter((one) => typeof one.sd === "number") : [];
  const frame = frameOf(points, band);
  const cursor = s("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
  const svg = s(
    "svg",
    {
      viewBox: "0 0 " + WIDTH + " " + HEIGHT,
      role: "img",
      tabindex: 0,
      id: "chart-" + names[0],
      "aria-label": inWords(title, series),
    },
    axes(frame),
    spread(frame, band),
    series.map((one) => curve(frame, one)),
    cursor,
  );
  const legend = h("ul", { class: "legend" });
  readable(svg, legend, cursor, series, frame);
  return h("section", { class: "card chart" }, h("h3", {}, plain(title)), svg, legend);
}

// The legend tells the values at a step: the last, the one under the pointer, or by arrow keys.
// A click, or Enter, opens the episodes of that step.
function readable(svg, legend, cursor, series, frame) {
  const all = series.flatMap((one) => one.points.map((point) => point.step));
  const steps = [...new Set(all)].sort((a, b) => a - b);
  let at = steps.length - 1;
  const told = () =>
    series.map(({ name, place, points, text, dots }) => {
      const here = points.find((one) => one.step === steps[at]);
      // what is measured at some steps only: the last of them
      const point = here || (dots && points.findLast((one) => one.step < steps[at]));
      const when = point && !here ? ` (step ${point.step})` : "";
      return { place, dots, name: label(name), value: point ? text(point.value) + when : "none" };
    });
  function read(place, marked) {
    at = Math.max(0, Math.min(steps.length - 1, place));
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, marked ? frame.x(steps[at]) : -9);
    const values = told().map(({ place, dots, name, value }) =>
      h("li", {}, swatch(place, dots), plain(name), " ", h("b", {}, value)),
    );
    const title = "step " + steps[at];
    const link = isPlayed(steps[at]) ? h("a", { href: episodesOf(steps[at]) }, title) : title;
    legend.replaceChildren(h("li", { class: "muted" }, link), ...values);
  }
  const under = (event) => {
    const box = svg.getBoundingClientRect();
    const wanted = frame.stepAt(((event.clientX - box.left) / box.width) * WIDTH);
    const after = steps.findIndex((one) => one > wanted);
    const before = after < 0 ? steps.length - 1 : after - 1;
    const nearer = before >= 0 && after >= 0 && steps[after] - wanted < wanted - steps[before];
    read(nearer ? after : before, true);
  };
  const open = () => {
    if (isPlayed(steps[at])) location.hash = episodesOf(steps[at]);
  };
  svg.addEventListener("pointermove", under);
  svg.addEventListener("pointerleave", () => read(steps.length - 1, false));
  svg.addEventListener("click", (event) => {
    under(event);
    open();
  });
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Enter") open();
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    read(at + move, true);
    const values = told().map(({ name, value }) => name + " " + value);
    say("step " + steps[at] + ": " + values.join(", "));
  });
  read(at, false);
}

const isPlayed = (step) => index.episodes.some((one) => one.step === step);
const episodesOf = (step) => "#/episodes?step=" + step;

function swatch(place, dots) {
  const dash = DASHES[place % DASHES.length];
  const line = { x1: 0, x2: 26, y1: 4, y2: 4, stroke: colour(place), "stroke-width": 2.5 };
  return s(
    "svg",
    { class: "swatch", viewBox: "0 0 26 8", "aria-hidden": "true" },
    dots
      ? s("circle", { cx: 13, cy: 4, r: 3.5, fill: colour(place) })
      : s("line", { ...line, "stroke-dasharray": dash }),
  );
}

function inWords(title, series) {
  const told = series.map(({ name, points, text }) => {
    const values = points.map((one) => one.value);
    const [first, last, low, high] = [values[0], values.at(-1), ...extent(values)].map(text);
    return `${label(name)} from ${first} to ${last}, between ${low} and ${high}`;
  });
  return `${title} over the steps. ${told.join("; ")}. Arrow keys read single steps, Enter opens their episodes.`;
}

// --- histograms ---------------------------------------------------------------------------------

function histograms() {
  const rewards = index.episodes.filter((one) => known(one.reward)).map((one) => one.reward);
  if (!rewards.length) return h("p", { class: "muted" }, "Nothing is graded yet.");
  const [low, high] = extent(rewards);
  const step = high > low ? stride(low, high, BINS) : 1;
  const first = Math.floor(low / step);
  const count = Math.floor(high / step) - first + 1;
  const edges = Array.from({ length: count + 1 }, (_, at) => (first + at) * step);
  const agents = [...new Set(index.episodes.map((one) => one.agent))];
  return agents.map((agent, place) => {
    const counts = new Array(count).fill(0);
    for (const one of index.episodes) {
      if (one.agent === agent && known(one.reward)) {
        counts[Math.floor(one.reward / step) - first] += 1;
      }
    }
    const shown = extent(counts)[1]
      ? [histogram(counts, edges, place), h("p", { class: "muted" }, "episodes by reward")]
      : h("p", { class: "muted" }, "Nothing is graded.");
    return h("section", { class: "card" }, h("h3", {}, plain(agent)), shown);
  });
}

function histogram(counts, edges, place) {
  const texts = tickTexts(edges);
  const most = extent(counts)[1];
  const wide = (WIDTH - LEFT - RIGHT) / counts.length;
  const base = HEIGHT - BOTTOM;
  const told = counts.map((count, bin) => `${count} from ${texts[bin]} to ${texts[bin + 1]}`);
  const middle = { "text-anchor": "middle" };
  const bars = counts.map((count, bin) => {
    const tall = ((base - TOP - 10) * count) / most;
    const left = LEFT + bin * wide;
    const bar = { x: left + 1, width: Math.max(1, wide - 2), y: base - tall, height: tall };
    return count
      ? [
          s("rect", { ...bar, fill: colour(place) }),
          s("text", { x: left + wide / 2, y: base - tall - 3, ...middle }, String(count)),
        ]
      : null;
  });
  const every = Math.ceil(edges.length / 9); // more texts would touch each other
  const marks = edges.map((_, at) =>
    at % every ? null : s("text", { x: LEFT + at * wide, y: HEIGHT - 6, ...middle }, texts[at]),
  );
  return s(
    "svg",
    {
      viewBox: "0 0 " + WIDTH + " " + HEIGHT,
      role: "img",
      "aria-label": "Episodes by reward: " + told.join("; "),
    },
    bars,
    marks,
  );
}
