// Curves over the steps of a run.

const WIDTH = 360;
const HEIGHT = 190;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 24;
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 4", "1 4", "12 4"];

const colour = (place) => "var(--c" + (place % DASHES.length) + ")";

// Not Math.min(...values): a long run exceeds the maximum number of arguments.
const extent = (values) =>
  values.reduce(
    ([low, high], one) => [Math.min(low, one), Math.max(high, one)],
    [Infinity, -Infinity],
  );

// Length of an error bar to each side: a standard deviation, or two standard errors.
const reach = (one) => one.sd ?? one.error ?? 0;

// Round numbers that divide a range into two to five parts, and their labels.
function ticks(low, high) {
  const raw = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw * 0.999);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const first = Math.ceil(low / step - 1e-6);
  const count = Math.floor(high / step + 1e-6) - first + 1;
  const values = Array.from({ length: count }, (_, at) => (first + at) * step);
  const size = Math.max(-low, high);
  const isPlain = size >= 1e-3 && size < 1e6;
  return values.map((value) => [value, isPlain ? fixed(value, decimals) : number(value)]);
}

// Series of a chart: name, index of the colour, points, and format of the values.
const seriesOf = (names) =>
  names.map((name, place) => series(name, place, index.metrics, label(name)));

function series(name, place, metrics, title, sd) {
  const rows = metrics.filter((one) => typeof one[name] === "number");
  const points = rows.map((one) => ({ step: one.step, value: one[name], sd: one[sd] }));
  return { name: title, place, points, text: isCount(name) ? fixedCount : number };
}

// Evaluations on held-out tasks, as points with two standard errors.
function heldOut({ metrics, figures }, place, name) {
  const last = metrics.at(-1)?.step ?? 0;
  const stepOf = (when) => ({ before: 0, after: last })[when] ?? Number(when.replace("step ", ""));
  const points = Object.entries(figures)
    .map(([when, { reward, errors }]) => [when, { value: reward, error: errors?.reward }])
    .filter(([when, { value }]) => when !== "floor" && typeof value === "number")
    .map(([when, point]) => ({ step: stepOf(when), ...point }));
  return { name, place, points, text: number, dots: true };
}

// Series of the training reward, the held-out rewards and the floor, a horizontal line.
function rewardSeries() {
  const { metrics, figures } = index;
  const ends = figures.floor ? [0, metrics.at(-1).step] : [];
  const level = ends.map((step) => ({ step, value: figures.floor.reward }));
  return [
    series("reward", 0, metrics, "training (band: one standard deviation)", "reward_std"),
    heldOut(index, 1, "held-out tasks (± two standard errors)"),
    { name: "floor (an agent that improves nothing)", place: 2, points: level, text: number },
  ];
}

// Limits of the axes, and the conversions between data and pixels.
function frameOf(points) {
  let [low, high] = extent(
    points.flatMap((one) => [one.value - reach(one), one.value + reach(one)]),
  );
  if (low === high) {
    const margin = Math.abs(low) / 10 || 1;
    [low, high] = [low - margin, high + margin];
  }
  const [first, last] = extent(points.map((one) => one.step));
  const marks = ticks(low, high);
  const left = 12 + 8 * Math.max(4, ...marks.map(([, text]) => text.length)); // room for them
  const wide = WIDTH - left - RIGHT;
  const x = (step) => left + wide * (last > first ? (step - first) / (last - first) : 0.5);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (high - low));
  const stepAt = (place) => first + ((last - first) * (place - left)) / wide;
  return { marks, left, first, last, x, y, stepAt };
}

function path({ x, y }, points) {
  const to = ([step, value]) => x(step).toFixed(1) + " " + y(value).toFixed(1);
  return "M" + points.map(to).join("L");
}

function axes({ marks, left, first, last, x, y }) {
  const steps = last > first ? ticks(first, last).map(([step]) => step) : [first];
  return [
    marks.map(([value, text]) => [
      s("line.axis", { x1: left, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      s("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, text),
    ]),
    s("text", { x: 2, y: HEIGHT - 6 }, "step"),
    steps
      .filter(Number.isInteger)
      .map((step) => s("text", { x: x(step), y: HEIGHT - 6, "text-anchor": "middle" }, step)),
  ];
}

const stroke = (place, shape, attributes) => {
  const look = { fill: "none", stroke: colour(place), "stroke-width": 2 };
  return s(shape, { ...look, "stroke-dasharray": DASHES[place % DASHES.length], ...attributes });
};
const dot = (place, cx, cy) => s("circle", { cx, cy, r: 3.5, fill: colour(place) });

function curve(frame, { place, points, dots }) {
  const ends = (one) => [-1, 1].map((side) => [one.step, one.value + side * reach(one)]);
  if (dots || points.length === 1) {
    return points.map((one) => [
      stroke(place, "path", { d: path(frame, ends(one)), "stroke-dasharray": "" }),
      dot(place, frame.x(one.step), frame.y(one.value)),
    ]);
  }
  const pairs = points.map((one) => [one.step, one.value]);
  return [spread(frame, place, points), stroke(place, "path", { d: path(frame, pairs) })];
}

// Band of one standard deviation around a curve.
function spread(frame, place, points) {
  const band = points.filter((one) => typeof one.sd === "number");
  if (band.length < 2) return null;
  const above = band.map((one) => [one.step, one.value + one.sd]);
  const below = band.map((one) => [one.step, one.value - one.sd]).reverse();
  const look = { fill: colour(place), opacity: 0.15 };
  return s("path", { d: path(frame, [...above, ...below]) + "Z", ...look });
}

function chart(title, given) {
  const all = given.filter((one) => one.points.length);
  const frame = frameOf(all.flatMap((one) => one.points));
  const cursor = s("line.cursor", { y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
  const svg = s(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img",
      tabindex: 0,
      id: "chart-" + title.replaceAll(" ", "-"),
      "aria-label": inWords(title, all),
    },
    axes(frame),
    all.map((one) => curve(frame, one)),
    cursor,
  );
  const legend = h("ul.legend");
  readable(svg, legend, cursor, all, frame);
  return h("section.card.chart", h("h3", title), svg, legend);
}

// Shows the values of a step in the legend: the last one, or that of the pointer or arrow keys.
// A click or Enter opens the episodes of the step.
function readable(svg, legend, cursor, series, frame) {
  const all = series.flatMap((one) => one.points.map((point) => point.step));
  const steps = [...new Set(all)].sort((a, b) => a - b);
  let at = steps.length - 1;
  const values = () =>
    series.map(({ name, place, points, text, dots }) => {
      const here = points.find((one) => one.step === steps[at]);
      // a series without a value at this step shows its latest one
      const point = here || points.findLast((one) => one.step < steps[at]);
      const when = point && !here ? ` (step ${point.step})` : "";
      const range = point?.error ? "\u00a0±\u00a0" + fixed(point.error, 2) : "";
      return { place, dots, name, value: point ? text(point.value) + range + when : "none" };
    });
  function read(wanted, isMarked) {
    at = Math.max(0, Math.min(steps.length - 1, wanted));
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, isMarked ? frame.x(steps[at]) : -9);
    const items = values().map(({ place, dots, name, value }) =>
      h("li", swatch(place, dots), name, " ", h("b", value)),
    );
    const title = "step " + steps[at];
    const link = isPlayed(steps[at]) ? h("a", { href: episodesOf(steps[at]) }, title) : title;
    legend.replaceChildren(h("li.muted", link), ...items);
  }
  const under = (event) => {
    const box = svg.getBoundingClientRect();
    const wanted = frame.stepAt(((event.clientX - box.left) / box.width) * WIDTH);
    const distances = steps.map((one) => Math.abs(one - wanted));
    read(distances.indexOf(extent(distances)[0]), true);
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
    const texts = values().map(({ name, value }) => name + " " + value);
    say("step " + steps[at] + ": " + texts.join(", "));
  });
  read(at, false);
}

const isPlayed = (step) => index.episodes.some((one) => one.step === step);
const episodesOf = (step) => "#/episodes?step=" + step;

function swatch(place, dots) {
  const shape = dots
    ? dot(place, 13, 4)
    : stroke(place, "line", { x1: 0, x2: 26, y1: 4, y2: 4, "stroke-width": 2.5 });
  return s("svg.swatch", { viewBox: "0 0 26 8", "aria-hidden": "true" }, shape);
}

function inWords(title, series) {
  const parts = series.map(({ name, points, text }) => {
    const values = points.map((one) => one.value);
    const [first, last, low, high] = [values[0], values.at(-1), ...extent(values)].map(text);
    return `${name} from ${first} to ${last}, between ${low} and ${high}`;
  });
  return `${title} over the steps. ${parts.join("; ")}. Arrow keys read single steps, Enter opens their episodes.`;
}
