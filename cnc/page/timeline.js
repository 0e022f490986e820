/* Gates and frames over time: what is in sight, and how one moves. */

const ZOOM_MIN_NS = 100;
const MEMBERS_MAX = 12;  // of a window, that a tip names
const STEP = 0.2;  // of the time in sight, for an arrow key

const timeline = {
  pane: byId("timeline"), canvas: byId("timeline").querySelector("canvas"),
  from: 0, to: plan.span_ns, frames: [], ports: [], tops: new Map(), height: 0, colors: null,
};
const drawTimeline = onceAFrame(renderTimeline);

function startTimeline() {
  timeline.frames = plan.ports.map(() => []);
  plan.streams.forEach(({ hops, shares }, stream) => {
    if (!shares) hops.forEach((hop) => timeline.frames[hop[PORT]].push({ stream, hop }));
  });
  readColors();
  arrange();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColors(); drawTimeline(); });
  new ResizeObserver(drawTimeline).observe(timeline.pane);
  timeline.pane.addEventListener("scroll", drawTimeline);
  timeline.pane.addEventListener("wheel", onWheel, { passive: false });
  timeline.pane.addEventListener("pointerdown", onPointerDown);
  timeline.pane.addEventListener("pointermove", onHover);
  timeline.pane.addEventListener("pointerleave", () => { byId("tip").hidden = true; });
  timeline.pane.addEventListener("keydown", onKey);
  byId("zoom-in").addEventListener("click", () => zoom(0.5));
  byId("zoom-out").addEventListener("click", () => zoom(2));
  byId("whole").addEventListener("click", () => show(0, plan.span_ns));
  byId("compact").addEventListener("change", arrange);
  byId("only").addEventListener("change", arrange);
  addEventListener("beforeprint", () => usePaper(true));
  addEventListener("afterprint", () => usePaper(false));
  selection.followers.push(followStream);
  renderTimeline();
}

function readColors() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ground", "panel", "line", "text", "quiet", "shut", "grid", "scheduled", "control", "best-effort", "shared"];
  timeline.colors = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`)]));
  timeline.colors.frames = [0, 1, 2, 3, 4, 5].map((number) => style.getPropertyValue(`--frame-${number}`));
}

/* Paper is white, whatever the screen is. */
function usePaper(paper) {
  document.documentElement.classList.toggle("paper", paper);
  readColors();
  renderTimeline();
}

/* Ports down the page, each with its lanes; `tops` finds the lane of a port and class again. */
function arrange() {
  const compact = byId("compact").checked, heading = compact ? 0 : HEADING, gap = compact ? 0 : PORT_GAP;
  let top = RULER + (compact ? 6 : 2);
  timeline.ports = [];
  timeline.tops.clear();
  for (const port of portsShown()) {
    const lanes = lanesOf(port, compact).map((lane, index) => ({ ...lane, port, top: top + heading + index * (LANE + LANE_GAP) }));
    for (const lane of lanes) for (const which of lane.classes) timeline.tops.set(`${port} ${plan.classes[which].name}`, lane.top);
    const height = heading + lanes.length * (LANE + LANE_GAP) + gap;
    timeline.ports.push({ port, top, bottom: top + height, lanes });
    top += height;
  }
  timeline.height = top;
  drawTimeline();
}

function portsShown() {
  if (selection.stream !== null && byId("only").checked) {
    return [...new Set(portsOf(plan.streams[selection.stream]))];
  }
  return Array.from({ length: plan.rows }, (_, number) => number);
}

/* A lane for each class; in one for all there is no room for gates that are open anyway. */
function lanesOf(port, compact) {
  const { name, cycle_ns: cycle } = plan.ports[port], all = plan.classes.map((_, which) => which);
  const scheduled = all.filter((which) => plan.classes[which].role === "scheduled");
  if (compact) return [{ label: name, classes: cycle ? scheduled : all }];
  if (!cycle) return [{ label: "frames", classes: all }];
  return all.map((which) => ({ label: laneLabel(which), classes: [which] }));
}

function laneLabel(which) {
  return `${plan.classes[which].number} ${plan.classes[which].name}`;
}

/* Where a class's lane of a port is in the picture now; undefined if the port is not shown. */
function laneTop(port, className) {
  const top = timeline.tops.get(`${port} ${className}`);
  return top === undefined ? undefined : top - timeline.pane.scrollTop;
}

function renderTimeline() {
  const { pane, canvas } = timeline;
  const width = pane.clientWidth, height = pane.clientHeight, pixels = devicePixelRatio;
  byId("rows").style.height = `${Math.max(0, timeline.height - height)}px`;
  if (canvas.width !== Math.round(width * pixels) || canvas.height !== Math.round(height * pixels)) {
    canvas.width = Math.round(width * pixels);
    canvas.height = Math.round(height * pixels);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d", { alpha: false });
  context.setTransform(pixels, 0, 0, pixels, 0, 0);
  context.textBaseline = "middle";
  drawScene(scene(context, width, height));
  byId("range").value = `${us(timeline.from)} to ${us(timeline.to)} µs`;
}

function scene(context, width, height) {
  const { from, to, colors, pane, ports } = timeline;
  const near = ports.filter((port) => port.bottom > pane.scrollTop && port.top < pane.scrollTop + height);
  const family = getComputedStyle(pane).fontFamily, small = `11px ${family}`;
  context.font = small;
  const widths = new Map();
  return {
    context, width, height, colors, from, to, small, bold: `bold 12px ${family}`,
    scale: (width - LABELS) / (to - from), stream: selection.stream,
    ports: byId("compact").checked ? [] : near.map(({ port, top }) => ({ port, top: top - pane.scrollTop })),
    lanes: near.flatMap(({ lanes }) => lanes.map((lane) => ({ ...lane, top: lane.top - pane.scrollTop }))),
    textWidth(words) {
      if (!widths.has(words)) {
        context.font = small;
        widths.set(words, context.measureText(words).width);
      }
      return widths.get(words);
    },
  };
}

/* Make [from, to) the time in sight, as far as there is a schedule. */
function show(from, to) {
  const length = Math.min(Math.max(to - from, ZOOM_MIN_NS), plan.span_ns);
  timeline.from = Math.max(0, Math.min(from, plan.span_ns - length));
  timeline.to = timeline.from + length;
  drawTimeline();
}

/* `at`: which part of the picture stays where it is, 0 to 1. */
function zoom(factor, at = 0.5) {
  const length = timeline.to - timeline.from;
  const longer = Math.min(Math.max(length * factor, ZOOM_MIN_NS), plan.span_ns);
  const from = timeline.from + (length - longer) * at;
  show(from, from + longer);
}

function pan(share) {
  const by = share * (timeline.to - timeline.from);
  show(timeline.from + by, timeline.to + by);
}

function onWheel(event) {
  event.preventDefault();
  const along = event.deltaX || (event.shiftKey ? event.deltaY : 0);
  if (along) pan(Math.max(-0.5, Math.min(0.5, along / 600)));
  else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), share(event.clientX));
}

/* How far across the picture a place on the screen is. */
function share(clientX) {
  const box = timeline.canvas.getBoundingClientRect();
  return Math.max(0, Math.min(1, (clientX - box.left - LABELS) / (box.width - LABELS)));
}

function onKey(event) {
  const actions = {
    "+": () => zoom(0.5, 0.5), "=": () => zoom(0.5, 0.5), "-": () => zoom(2, 0.5), 0: () => show(0, plan.span_ns),
    ArrowLeft: () => pan(-STEP), ArrowRight: () => pan(STEP),
    ArrowUp: () => timeline.pane.scrollBy(0, -60), ArrowDown: () => timeline.pane.scrollBy(0, 60),
  };
  if (!(event.key in actions) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  actions[event.key]();
}

/* Dragging moves time and ports; a click without it selects the stream of a frame, or one after the
   other of those that share a window. */
function onPointerDown(event) {
  if (event.button || event.target !== timeline.canvas) return;
  const { from, to, pane } = timeline, scroll = pane.scrollTop;
  const scale = (pane.clientWidth - LABELS) / (to - from);
  let moved = false;
  const move = (now) => {
    moved ||= Math.hypot(now.clientX - event.clientX, now.clientY - event.clientY) > 4;
    if (!moved) return;
    const by = (event.clientX - now.clientX) / scale;
    show(from + by, to + by);
    pane.scrollTop = scroll + event.clientY - now.clientY;
  };
  const end = (now) => {
    pane.removeEventListener("pointermove", move);
    removeEventListener("pointerup", end);
    removeEventListener("pointercancel", end);
    const { frame, shared } = !moved && now.type === "pointerup" ? under(now) : {};
    if (frame) selection.choose(frame.stream, "timeline");
    else if (shared) selection.choose(nextMember(shared.window), "timeline");
  };
  pane.addEventListener("pointermove", move);
  addEventListener("pointerup", end);
  addEventListener("pointercancel", end);
}

function nextMember(window) {
  const members = window[MEMBERS];
  return members[(members.indexOf(selection.stream) + 1) % members.length];
}

/* What the pointer is on: {lane, frame, shared, time}, each if there is one. */
function under(event) {
  const box = timeline.canvas.getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  const seen = scene(timeline.canvas.getContext("2d"), box.width, box.height);
  const lane = x > LABELS && y > RULER && seen.lanes.find(({ top }) => y >= top && y < top + LANE);
  if (!lane) return {};
  let frame;
  for (const each of framesOf(lane)) {
    for (const mark of inSight(seen, each)) if (x >= mark.left - 1 && x <= Math.max(mark.right, mark.latest) + 1) frame = mark;
  }
  const shared = windowsInSight(seen, lane).find((mark) => x >= mark.left - 1 && x <= mark.right + 1);
  return { lane, frame, shared, time: seen.from + (x - LABELS) / seen.scale };
}

function onHover(event) {
  const tip = byId("tip"), { lane, frame, shared, time } = event.buttons ? {} : under(event);
  tip.hidden = !lane;
  if (!lane) return;
  const classes = lane.classes.length > 1 ? "all that is scheduled" : laneLabel(lane.classes[0]);
  const words = frame ? frameWords(frame) : shared ? windowWords(shared) : gateWords(lane, time);
  tip.textContent = `${plan.ports[lane.port].name}, ${classes}\n${words}`;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 4)}px`;
  tip.style.top = `${Math.min(event.clientY + 14, innerHeight - height - 4)}px`;
}

function frameWords({ stream, hop, start }) {
  const { name, period_ns: period } = plan.streams[stream];
  const ends = [PLANNED_END, LATEST_END].map((end) => us(start + hop[end] - hop[OFFSET]));
  return `${name}: planned ${us(start)} to ${ends[0]} µs, done by ${ends[1]} µs; every ${duration(period)}`;
}

function windowWords({ window, start }) {
  const end = start + window[CLOSES] - window[OPENS], members = window[MEMBERS];
  const named = members.slice(0, MEMBERS_MAX).map((number) => plan.streams[number].name).join(", ");
  const more = members.length > MEMBERS_MAX ? ` and ${members.length - MEMBERS_MAX} more` : "";
  return `window ${us(start)} to ${us(end)} µs, ${counted(members.length, "stream")}: ${named}${more}`;
}

function gateWords(lane, time) {
  const port = plan.ports[lane.port];
  if (!port.cycle_ns) return `${us(Math.round(time))} µs`;
  const cycle = Math.floor(time / port.cycle_ns) * port.cycle_ns;
  for (const which of lane.classes) {
    const at = firstClosingAfter(port.open[which], time - cycle);
    const [opens, closes] = port.open[which].slice(at, at + 2);
    if (opens <= time - cycle) return `open from ${us(cycle + opens)} to ${us(cycle + closes)} µs`;
  }
  return `shut at ${us(Math.round(time))} µs`;
}

/* A stream chosen in the table is often too short to see: show its first journey. */
function followStream(stream, from) {
  arrange();
  if (stream === null) return;
  const { hops } = plan.streams[stream];
  if (byId("only").checked) timeline.pane.scrollTop = 0;
  else scrollToPort(portsOf(plan.streams[stream])[0] ?? 0);
  if (from !== "table" || !hops.length) return;
  const start = Math.min(...hops.map((hop) => hop[OFFSET])), end = Math.max(...hops.map((hop) => hop[RECEIVED]));
  show(start - (end - start) * 0.1, end + (end - start) * 0.25);
}

function scrollToPort(number) {
  const place = () => timeline.ports.find(({ port }) => port === number);
  if (!place() && selection.stream !== null) selection.choose(null);
  if (place()) timeline.pane.scrollTop = place().top - RULER;
}
