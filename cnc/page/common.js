/* What every part uses. All text from the plan becomes text nodes, never markup. */

const byId = (id) => document.getElementById(id);

/* The fields of a hop, as in data.py. */
const PORT = 0, OFFSET = 1, PLANNED_END = 2, LATEST_END = 3, READY_FROM = 4, READY_BY = 5, RECEIVED = 6, PARENT = 7;

/* The fields of a window that frames share. */
const CLASS = 0, OPENS = 1, CLOSES = 2, CYCLE = 3, MEMBERS = 4;

function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svgElement(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/* Microseconds, exact, without trailing zeros. */
function us(ns) {
  return String(Number((ns / 1000).toFixed(3)));
}

/* In the largest unit that keeps it readable. */
function duration(ns) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (Math.abs(ns) >= size) return `${Number((ns / size).toFixed(3))} ${unit}`;
  }
  return `${Number(ns.toFixed(1))} ns`;
}

function percent(share) {
  return `${Number((share * 100).toPrecision(share < 0.01 ? 1 : 2))} %`;
}

function counted(number, what) {
  const many = what.endsWith("y") ? `${what.slice(0, -1)}ies` : `${what}${/(s|ch)$/.test(what) ? "es" : "s"}`;
  return `${number.toLocaleString("en")} ${number === 1 ? what : many}`;
}

function nodeNames(numbers) {
  return numbers.map((number) => plan.nodes[number].name);
}

/* Which stream is selected (a number, or null), and who wants to know when it changes. */
const selection = {
  stream: null,
  followers: [],
  choose(stream, from) {
    if (stream === this.stream) return;
    this.stream = stream;
    for (const follower of this.followers) follower(stream, from);
  },
};

/* Run `draw` before the next picture, once however often it was asked for. */
function onceAFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

/* The ports that frames of a stream leave by; of one without a place none. */
function portsOf({ ports, hops }) {
  return ports ?? (hops || []).map((hop) => hop[PORT]);
}
