/* One picture of the timeline. A scene says what is seen:

     {context, width, height, colors, from, to, scale (px a ns), lanes in sight, ports in sight}

   A lane is {port, classes (places in plan.classes), top}. Only what is in sight is looked at, and
   what is narrower than a pixel is not drawn twice, so that a picture costs what its pixels cost. */

const LABELS = 158, RULER = 24, LANE = 13, LANE_GAP = 2, HEADING = 20, PORT_GAP = 8;
const REPEAT_MIN_PX = 2;  // what repeats more often than this is drawn as a shade
const FRAME_MIN_PX = 2;
const WAYS_MAX = 200;

function toX(scene, ns) {
  return LABELS + (ns - scene.from) * scene.scale;
}

function drawScene(scene) {
  const { context, width, height, colors } = scene;
  context.fillStyle = colors.ground;
  context.fillRect(0, 0, width, height);
  clipped(scene, LABELS, () => {
    for (const lane of scene.lanes) drawGates(scene, lane);
    drawGrid(scene);
    for (const lane of scene.lanes) drawFrames(scene, lane);
    if (scene.stream !== null) drawWays(scene);
  });
  scene.ports.forEach((port) => drawPortHeading(scene, port));
  scene.lanes.forEach((lane) => drawLaneLabel(scene, lane));
  drawRuler(scene);
}

function clipped(scene, left, draw) {
  const { context, width, height } = scene;
  context.save();
  context.beginPath();
  context.rect(left, RULER, width - left, height - RULER);
  context.clip();
  draw();
  context.restore();
}

function drawGates(scene, lane) {
  const { context, colors } = scene;
  const end = Math.min(toX(scene, plan.span_ns), scene.width);
  const start = Math.max(LABELS, toX(scene, 0));
  context.fillStyle = colors.shut;
  context.fillRect(start, lane.top, end - start, LANE);
  const port = plan.ports[lane.port];
  if (port.cycle_ns) lane.classes.forEach((which) => drawOpenings(scene, lane, port, which));
}

function drawOpenings(scene, lane, port, which) {
  const { context, colors } = scene, { cycle_ns: cycle } = port, times = port.open[which];
  context.fillStyle = colors[plan.classes[which].role];
  if (cycle * scene.scale < REPEAT_MIN_PX) {
    shade(scene, lane, times.reduce((sum, time, index) => sum + (index % 2 ? time : -time), 0) / cycle);
    return;
  }
  let drawn = -Infinity;
  const until = Math.min(scene.to, plan.span_ns);
  for (let start = Math.max(0, Math.floor(scene.from / cycle)) * cycle; start < until; start += cycle) {
    for (let i = firstClosingAfter(times, scene.from - start); i < times.length && start + times[i] < until; i += 2) {
      const left = toX(scene, start + times[i]);
      const right = Math.max(toX(scene, Math.min(start + times[i + 1], plan.span_ns)), left + 1);
      if (right <= drawn) continue;
      context.fillRect(Math.max(left, drawn), lane.top, right - Math.max(left, drawn), LANE);
      drawn = right;
    }
  }
}

/* The place in [opens, closes, opens, …] of the first opening that ends after `time`. */
function firstClosingAfter(times, time) {
  let low = 0, high = times.length / 2;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[2 * middle + 1] > time) high = middle; else low = middle + 1;
  }
  return 2 * low;
}

/* What repeats too often to be told apart: as strong as its share of the time. */
function shade(scene, lane, share) {
  const left = Math.max(LABELS, toX(scene, 0)), right = Math.min(scene.width, toX(scene, plan.span_ns));
  scene.context.globalAlpha = Math.max(0.15, Math.min(1, share));
  if (share > 0) scene.context.fillRect(left, lane.top, right - left, LANE);
  scene.context.globalAlpha = 1;
}

function drawFrames(scene, lane) {
  const seen = [];
  for (const frame of framesOf(lane)) seen.push(...inSight(scene, frame));
  seen.push(...windowsInSight(scene, lane));
  seen.sort((a, b) => a.left - b.left);
  seen.forEach((mark, index) => (mark.window ? drawWindow : drawFrame)(scene, lane, mark, seen[index + 1]));
  scene.context.globalAlpha = 1;
}

/* The windows of a lane that frames share, each once; one mark for all where they are too dense. */
function windowsInSight(scene, lane) {
  const found = [];
  for (const window of plan.ports[lane.port].windows || []) {
    if (!lane.classes.includes(window[CLASS])) continue;
    const cycle = window[CYCLE], length = window[CLOSES] - window[OPENS];
    if (cycle * scene.scale < REPEAT_MIN_PX) {
      found.push({ window, left: toX(scene, 0), right: toX(scene, plan.span_ns), start: window[OPENS], dense: true });
      continue;
    }
    const until = Math.min(scene.to, plan.span_ns);
    const first = Math.max(0, Math.floor((scene.from - window[CLOSES]) / cycle));
    for (let start = window[OPENS] + first * cycle; start < until; start += cycle) {
      const left = toX(scene, start);
      found.push({ window, left, right: Math.max(toX(scene, start + length), left + FRAME_MIN_PX), start });
    }
  }
  return found;
}

/* One block, whichever frame leaves first in it. */
function drawWindow(scene, lane, mark, next) {
  const { context, colors } = scene, members = mark.window[MEMBERS];
  const chosen = members.includes(scene.stream);
  const strength = scene.stream === null || chosen ? 1 : 0.45;
  context.fillStyle = chosen ? colors.frames[scene.stream % colors.frames.length] : colors.shared;
  context.globalAlpha = strength * (mark.dense ? 0.4 : 1);
  const grown = chosen ? 2 : 0;
  context.fillRect(mark.left, lane.top + 2 - grown, mark.right - mark.left, LANE - 4 + 2 * grown);
  context.globalAlpha = strength;
  const company = members.length === 1 ? plan.streams[members[0]].name : counted(members.length, "stream");
  const words = chosen && members.length > 1 ? `${plan.streams[scene.stream].name}, one of ${company}` : company;
  nameBlock(scene, lane, words, mark.left, mark.right, mark.right, next ? next.left : scene.width, chosen);
}

/* The frames of a lane, as {stream, hop}. */
function framesOf(lane) {
  const frames = timeline.frames[lane.port];
  if (!plan.ports[lane.port].cycle_ns) return frames;
  const names = lane.classes.map((which) => plan.classes[which].name);
  return frames.filter((frame) => names.includes(plan.streams[frame.stream].class));
}

/* Where a hop's frames lie in the picture, one mark a period; one for all where they are too dense. */
function* inSight(scene, { stream, hop }) {
  const period = plan.streams[stream].period_ns;
  const length = hop[PLANNED_END] - hop[OFFSET], tail = hop[LATEST_END] - hop[OFFSET];
  if (period * scene.scale < REPEAT_MIN_PX) {
    const left = toX(scene, 0), right = toX(scene, plan.span_ns);
    yield { stream, hop, left, right, latest: right, start: hop[OFFSET] % period, dense: true };
    return;
  }
  const until = Math.min(scene.to, plan.span_ns);
  const phase = hop[OFFSET] % period;
  const first = Math.max(0, Math.floor((scene.from - tail - phase) / period));
  for (let start = phase + first * period; start < until; start += period) {
    const left = toX(scene, start);
    const right = Math.max(toX(scene, start + length), left + FRAME_MIN_PX);
    yield { stream, hop, left, right, latest: toX(scene, start + tail), start };
  }
}

function drawFrame(scene, lane, mark, next) {
  const { context, colors } = scene;
  const chosen = mark.stream === scene.stream;
  const color = colors.frames[mark.stream % colors.frames.length];
  const strength = scene.stream === null || chosen ? 1 : 0.45;
  context.fillStyle = color;
  context.globalAlpha = strength * (mark.dense ? 0.4 : 1);
  context.fillRect(mark.left, lane.top + 2, mark.right - mark.left, LANE - 4);
  context.globalAlpha = strength * 0.6;
  if (mark.latest > mark.right) context.fillRect(mark.right, lane.top + LANE / 2 - 1, mark.latest - mark.right, 2);
  context.globalAlpha = strength;
  if (chosen) {
    context.fillRect(mark.left - 1, lane.top, mark.right - mark.left + 2, LANE);
    const waits = (mark.hop[OFFSET] - mark.hop[READY_FROM]) * scene.scale;
    if (!mark.dense) context.fillRect(mark.left - waits, lane.top + LANE - 2, waits, 3);
  }
  nameFrame(scene, lane, mark, next ? next.left : scene.width, chosen);
}

/* Into the frame if it fits, else behind it if there is room; a selected one says its time. */
function nameFrame(scene, lane, mark, until, chosen) {
  const { name } = plan.streams[mark.stream];
  const words = chosen && !mark.dense ? `${name} ${us(mark.start)} µs` : name;
  nameBlock(scene, lane, words, mark.left, mark.right, clearOf(scene, mark, chosen), until, chosen);
}

/* Into the block from `from` to `right` if the words fit, else from `end` on if there is room. */
function nameBlock(scene, lane, words, from, right, end, until, chosen) {
  const { context, colors } = scene;
  const width = scene.textWidth(words) + 6, left = Math.max(from, LABELS);
  context.font = scene.small;
  context.textAlign = "left";
  if (right - left > width) {
    context.fillStyle = scene.stream === null || chosen ? colors.ground : colors.text;
    context.fillText(words, left + 3, lane.top + LANE / 2 + 0.5);
  } else if (until - end > width) {
    context.fillStyle = chosen ? colors.text : context.fillStyle;
    context.fillText(words, end + 4, lane.top + LANE / 2 + 0.5);
  }
}

/* Where nothing more is drawn for a frame: a selected one has the mark of its arrival. */
function clearOf(scene, { hop, stream, start, right, latest }, chosen) {
  const arrives = chosen && plan.streams[stream].listeners.includes(plan.ports[hop[PORT]].to);
  return Math.max(right, latest, arrives ? toX(scene, start - hop[OFFSET] + hop[RECEIVED]) + 2 : 0);
}

/* From each hop to the next, and to the time by which the listener has the frame. */
function drawWays(scene) {
  const { context, colors } = scene, stream = plan.streams[scene.stream];
  const longest = Math.max(0, ...stream.hops.map((hop) => hop[RECEIVED]));
  const first = Math.max(0, Math.floor((scene.from - longest) / stream.period_ns));
  const last = Math.min(Math.ceil(scene.to / stream.period_ns), first + WAYS_MAX, plan.span_ns / stream.period_ns);
  context.strokeStyle = context.fillStyle = colors.text;
  context.lineWidth = 1.25;
  for (let period = first; period < last; period += 1) {
    for (const hop of stream.hops) drawStep(scene, stream, hop, period * stream.period_ns);
  }
}

function drawStep(scene, stream, hop, start) {
  const { context } = scene, top = laneTop(hop[PORT], stream.class);
  if (top === undefined) return;
  const before = stream.hops[hop[PARENT]];
  const topBefore = before && laneTop(before[PORT], stream.class);
  if (topBefore !== undefined) {
    const down = topBefore < top;
    context.beginPath();
    // From window to window where these may overlap, else from when the frame has been sent.
    context.moveTo(toX(scene, start + before[stream.shares ? OFFSET : PLANNED_END]), topBefore + (down ? LANE : 0));
    context.lineTo(toX(scene, start + hop[OFFSET]), top + (down ? 0 : LANE));
    context.stroke();
  }
  if (stream.listeners.includes(plan.ports[hop[PORT]].to)) drawArrival(scene, toX(scene, start + hop[RECEIVED]), top);
}

function drawArrival({ context }, x, top) {
  context.beginPath();
  context.moveTo(x, top - 1);
  context.lineTo(x, top + LANE + 1);
  context.moveTo(x - 5, top + LANE / 2 - 4);
  context.lineTo(x, top + LANE / 2);
  context.lineTo(x - 5, top + LANE / 2 + 4);
  context.stroke();
}

function drawPortHeading(scene, { port, top }) {
  const { context, colors } = scene, { name, to, cycle_ns: cycle, entries, load } = plan.ports[port];
  const y = top + HEADING / 2 + 2;
  context.textAlign = "left";
  context.font = scene.bold;
  context.fillStyle = colors.text;
  context.fillText(name, 10, y);
  const after = 18 + context.measureText(name).width;
  context.font = scene.small;
  context.fillStyle = colors.quiet;
  const gates = cycle ? `cycle ${us(cycle)} µs, ${counted(entries, "entry")}` : "no gates";
  context.fillText(`→ ${plan.nodes[to].name} · ${gates} · ${percent(load)} planned`, after, y);
}

function drawLaneLabel(scene, lane) {
  const { context, colors } = scene;
  context.textAlign = "right";
  context.font = scene.small;
  context.fillStyle = colors.quiet;
  context.fillText(lane.label, LABELS - 8, lane.top + LANE / 2 + 0.5, LABELS - 18);
}

/* The distance of the ruler's marks: 1, 2 or 5 times a power of ten. */
function tickNs(span, most) {
  const step = 10 ** Math.floor(Math.log10(Math.max(span / most, 1)));
  return step * [1, 2, 5, 10].find((factor) => span <= factor * step * most);
}

function ticks(scene) {
  const step = tickNs(scene.to - scene.from, Math.max(2, Math.floor((scene.width - LABELS) / 90)));
  const found = [];
  for (let at = Math.ceil(scene.from / step) * step; at <= scene.to; at += step) found.push(at);
  return found;
}

function drawGrid(scene) {
  const { context, colors, height } = scene;
  context.fillStyle = colors.grid;
  for (const at of ticks(scene)) context.fillRect(Math.round(toX(scene, at)), RULER, 1, height);
}

function drawRuler(scene) {
  const { context, colors, width } = scene;
  context.fillStyle = colors.panel;
  context.fillRect(0, 0, width, RULER);
  context.fillStyle = colors.line;
  context.fillRect(0, RULER - 1, width, 1);
  context.font = scene.small;
  context.fillStyle = colors.text;
  context.textAlign = "left";
  context.fillText("µs", 10, RULER / 2);
  context.textAlign = "center";
  for (const at of ticks(scene)) {
    const words = us(at), room = scene.textWidth(words) / 2 + 2;
    context.fillText(words, Math.min(toX(scene, at), width - room), RULER / 2);
  }
}
