// What all views use: the facts, elements, numbers in words, the tip under the pointer.
const facts = JSON.parse(document.getElementById("facts").textContent);
const tasks = facts.tasks;
const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawing(width, height) {
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
}

// Fills the view of a section, and again when the page has become wider or narrower.
const drawings = [];

function show(id, draw) {
  const box = document.querySelector(`#${id} .view`);
  const redraw = () => {
    box.replaceChildren();
    draw(box, Math.max(box.clientWidth, 280));
  };
  drawings.push(redraw);
  redraw();
}

let drawnWidth = document.documentElement.clientWidth;
addEventListener("resize", () => {
  if (document.documentElement.clientWidth === drawnWidth) return;
  drawnWidth = document.documentElement.clientWidth;
  for (const redraw of drawings) redraw();
});

function note(text) {
  return element("p", { class: "note" }, text);
}

function scaled(value, units, step) {
  let unit = 0;
  while (value >= step && unit < units.length - 1) { value /= step; unit += 1; }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)}\u00a0${units[unit]}`;
}

const bytesText = (bytes) => scaled(bytes, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
const timeText = (ns) => scaled(ns, ["ns", "µs", "ms", "s"], 1000);
const percent = (part, whole) => (whole > 0 ? `${(100 * part / whole).toFixed(part / whole < 0.1 ? 1 : 0)}\u00a0%` : "–");
const counted = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
const sum = (items, of) => items.reduce((total, item) => total + of(item), 0);
const color = (kind) => `var(--${kind}, var(--faint))`;
const place = (source) => source.replace(/^.*\//, "");

// The module and the line that a task came from.
function origin(task) {
  const [first, ...others] = task.modules;
  const module = first === undefined ? [] : [element("b", { title: task.modules.join("\n") }, others.length ? `${first} +${others.length}` : first)];
  return element("span", { class: "origin" }, ...module, element("span", {}, place(task.source)));
}

// From the shortest to the longest of the runs.
const spread = (task) => `${timeText(task.least_nanoseconds)} to ${timeText(task.most_nanoseconds)}`;
const totalTime = sum(tasks, (task) => task.nanoseconds);

function taskTip(index) {
  const task = tasks[index];
  return [
    `task ${index}: ${task.name} (${task.kind}, stream ${task.stream})`,
    task.nanoseconds ? `${timeText(task.nanoseconds)} (${spread(task)}), ${percent(task.nanoseconds, totalTime)} of the time` : "",
    task.waits.length ? `waits for task ${task.waits.join(", ")}` : "",
    ...task.limits.map(([core, workers]) => `${core} ${workers}`),
    `reads ${bytesText(task.bytes_read)}, writes ${bytesText(task.bytes_written)}`,
    task.origin && `stands for ${task.origin}`,
    task.modules.length ? `in ${task.modules.join(", ")}` : "",
    task.source,
    task.reason,
  ].filter(Boolean).join("\n");
}

function tipped(item, text) {
  item.addEventListener("pointermove", (event) => {
    const tip = document.getElementById("tip");
    tip.textContent = typeof text === "function" ? text() : text;
    tip.hidden = false;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  });
  item.addEventListener("pointerleave", () => { document.getElementById("tip").hidden = true; });
  return item;
}

function legend(kinds, names = {}) {
  return element("div", { class: "legend" },
    ...kinds.map((kind) => element("span", {}, element("i", { style: `background:${color(kind)}` }), names[kind] ?? kind)));
}

// Rows of cells; a cell is text, a node, or [class, content]. On narrow pages each row is a card, and each cell says its head.
function table(heads, rows) {
  const parts = (given) => Array.isArray(given) ? given : ["", given];
  const cell = (given, column) => {
    const [style, content] = parts(given);
    return element("td", { class: content === "" ? `${style} empty` : style, "data-head": parts(heads[column])[1] }, content);
  };
  return element("table", {},
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { class: parts(head)[0] }, parts(head)[1])))),
    element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells.map(cell)))));
}

// The first rows, and a button for the rest.
function longTable(heads, rows, most) {
  const box = element("div", {}, table(heads, rows.slice(0, most)));
  if (rows.length > most) {
    const more = element("button", {}, `show all ${rows.length}`);
    more.addEventListener("click", () => box.replaceChildren(table(heads, rows)));
    box.append(more);
  }
  return box;
}

// Round numbers from 0 to `most`, about `count` of them.
function ticks(most, count, base = 10) {
  const rough = most / count;
  const power = base ** Math.floor(Math.log(rough) / Math.log(base));
  const factors = base === 10 ? [1, 2, 5, 10] : [...Array(11).keys()].map((k) => 2 ** k);
  const step = power * (factors.find((factor) => factor * power >= rough) ?? base);
  const found = [];
  for (let value = 0; value <= most; value += step) found.push(value);
  return found;
}
