/* The network. The half of a cable next to a node stands for what that node sends. */

const LOADS = [0, 0.1, 0.25, 0.5, 0.75];  // the upper ends of the colours' ranges
const CROWDED_NODES = 40;
const UNIT_MAX_FOR_ALL = 1.6;  // further away only switches have labels; a cable is 100 units long
const MARGIN = 46;
/* Where else a node's label may stand than in the widest gap between its cables. */
const AROUND = [0, 4, 2, 6, 1, 3, 5, 7].map((eighth) => ({ dx: Math.cos(eighth * Math.PI / 4), dy: Math.sin(eighth * Math.PI / 4) }));

const topology = { svg: byId("topology"), box: null, halves: [], nodes: [], loads: [], ways: null };
const placeLabels = onceAFrame(placeLabelsNow);

function loadStep(load) {
  const step = LOADS.findIndex((end) => load <= end);
  return step < 0 ? LOADS.length : step;
}

function drawTopology() {
  const { svg } = topology;
  const total = plan.nodes.filter((node) => node.bridge).length;
  svg.setAttribute("aria-label",
    `${counted(total, "switch")}, ${counted(plan.nodes.length - total, "end station")}; ` +
    "the list of ports has the same figures");
  svg.classList.toggle("crowded", plan.nodes.length > CROWDED_NODES);
  topology.halves = plan.ports.map(half);
  topology.nodes = plan.nodes.map(nodeMark);
  topology.ways = svgElement("g");
  topology.loads = plan.ports.filter((port) => port.load > 0).map(loadLabel);
  const labels = topology.loads.map(({ text }) => text);
  svg.append(...topology.halves, topology.ways, ...labels, ...topology.nodes);
  drawLoadLegend();
  fitTopology();
  svg.addEventListener("wheel", zoomTopology, { passive: false });
  svg.addEventListener("pointerdown", dragTopology);
  new ResizeObserver(scaleMarks).observe(svg);
  selection.followers.push(markWay);
}

function half(port, number) {
  const from = plan.nodes[port.node], to = plan.nodes[port.to];
  const line = svgElement("line", {
    x1: from.x, y1: from.y, x2: (from.x + to.x) / 2, y2: (from.y + to.y) / 2, class: `half load-${loadStep(port.load)}`,
  }, svgElement("title", {}, `${port.name} to ${to.name}: ${percent(port.load)} of ${port.rate} planned`));
  line.addEventListener("click", () => showPort(number));
  return line;
}

/* Beside its half, to the right of who goes that way, so that the two of a cable part. */
function loadLabel(port) {
  const from = plan.nodes[port.node], to = plan.nodes[port.to];
  const x = to.x - from.x, y = to.y - from.y, length = Math.hypot(x, y) || 1;
  const text = svgElement("text", { class: "load" }, percent(port.load));
  return { text, x: from.x + x * 0.36, y: from.y + y * 0.36, dx: -y / length, dy: x / length };
}

/* On which side of its place a text stands that has room in a direction so far to the right. */
function anchor(dx) {
  if (Math.abs(dx) < 0.4) return "middle";
  return dx > 0 ? "start" : "end";
}

function nodeMark(node) {
  const text = svgElement("text", {}, node.name);
  return svgElement("g", { class: node.bridge ? "bridge" : "station" },
    svgElement("title", {}, node.name), svgElement("circle", { cx: node.x, cy: node.y }), text);
}

function drawLoadLegend() {
  const names = ["unused", ...LOADS.slice(1).map((end) => `≤ ${end * 100} %`), "more"];
  byId("loads").append(...names.map((name, step) => element("li", {},
    svgElement("svg", { viewBox: "0 0 20 10", "aria-hidden": "true" },
      svgElement("line", { x1: 0, y1: 5, x2: 20, y2: 5, class: `load-${step}` })), name)));
}

function fitTopology() {
  const xs = [0, ...plan.nodes.map((node) => node.x)], ys = [0, ...plan.nodes.map((node) => node.y)];
  const left = Math.min(...xs) - MARGIN, top = Math.min(...ys) - MARGIN;
  topology.box = { x: left, y: top, width: Math.max(...xs) + MARGIN - left, height: Math.max(...ys) + MARGIN - top };
  setBox();
}

function setBox() {
  const { x, y, width, height } = topology.box;
  topology.svg.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  scaleMarks();
}

/* Marks and labels keep their size on the screen, and labels their distance from the marks. */
function scaleMarks() {
  const { width, height } = topology.svg.getBoundingClientRect();
  const unit = Math.max(topology.box.width / (width || 1), topology.box.height / (height || 1));
  topology.svg.style.setProperty("--unit", unit);
  topology.unit = unit;
  placeLabels();
}

/* The more important ones first; what would cover another wherever it stands waits until one zooms in. */
function placeLabelsNow() {
  const nodes = topology.nodes.map((mark, number) => ({ ...plan.nodes[number], mark, text: mark.lastChild, out: 10 }));
  const important = ({ mark, bridge }) => (mark.classList.contains("on-way") ? 2 : 0) + (bridge ? 1 : 0);
  nodes.sort((a, b) => important(b) - important(a));
  const near = topology.unit < UNIT_MAX_FOR_ALL;
  const taken = nodes.filter(({ bridge }) => near || bridge).map(({ x, y }) => boxAround(x, y, 8, 8));
  for (const label of [...nodes, ...topology.loads]) {
    const wanted = near || (label.mark && important(label) > 0);
    const ways = label.mark ? [label, ...AROUND] : [label];
    label.text.classList.toggle("no-room", !(wanted && ways.some((way) => placeLabel(label, way, taken))));
  }
}

/* Whether there is room for it in a direction from its place, which it then takes. */
function placeLabel({ text, x, y, out = 4 }, { dx, dy }, taken) {
  const { unit } = topology, width = text.textContent.length * 6.6;
  const left = x + dx * out * unit, top = y + dy * (out + 4) * unit;
  const side = { start: 1, middle: 0, end: -1 }[anchor(dx)];
  const box = boxAround(left + side * width * unit / 2, top, width, 11);
  if (taken.some((other) => overlap(box, other))) return false;
  taken.push(box);
  text.setAttribute("text-anchor", anchor(dx));
  text.setAttribute("x", left);
  text.setAttribute("y", top);
  return true;
}

function boxAround(x, y, width, height) {
  const { unit } = topology;
  return { left: x - width * unit / 2, right: x + width * unit / 2, top: y - height * unit / 2, bottom: y + height * unit / 2 };
}

function overlap(a, b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

function zoomTopology(event) {
  event.preventDefault();
  const { box, svg } = topology;
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300)));
  topology.box = {
    x: at.x - (at.x - box.x) * factor, y: at.y - (at.y - box.y) * factor, width: box.width * factor, height: box.height * factor,
  };
  setBox();
}

function dragTopology(event) {
  const start = { ...topology.box }, scale = topology.svg.getScreenCTM().a;
  const move = (now) => {
    topology.box = { ...start, x: start.x - (now.clientX - event.clientX) / scale, y: start.y - (now.clientY - event.clientY) / scale };
    setBox();
  };
  const end = () => {
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", end);
    removeEventListener("pointercancel", end);
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end);
  addEventListener("pointercancel", end);
}

function markWay(stream) {
  const ports = new Set(stream === null ? [] : portsOf(plan.streams[stream]));
  const nodes = new Set([...ports].flatMap((port) => [plan.ports[port].node, plan.ports[port].to]));
  topology.svg.classList.toggle("chosen", stream !== null);
  topology.halves.forEach((mark, port) => mark.classList.toggle("on-way", ports.has(port)));
  topology.nodes.forEach((mark, node) => mark.classList.toggle("on-way", nodes.has(node)));
  placeLabels();
  topology.ways.replaceChildren(...[...ports].map((port) => {
    const from = plan.nodes[plan.ports[port].node], to = plan.nodes[plan.ports[port].to];
    return svgElement("line", { class: "way", x1: from.x, y1: from.y, x2: to.x, y2: to.y });
  }));
}
