/* The heading, the legend, and the selected stream hop by hop: the timeline in words. */

const HOP_COLUMNS = {
  port: ["Port", (hop) => plan.ports[hop[PORT]].name],
  queue: ["In queue", (hop) => (hop[PARENT] < 0 ? "–" : `${us(hop[READY_FROM])} – ${us(hop[READY_BY])}`)],
  leaves: ["Leaves", (hop) => us(hop[OFFSET])],
  end: ["Off wire by", (hop) => us(hop[LATEST_END])],
  window: ["Window", (hop) => `${us(hop[OFFSET])} – ${us(hop[LATEST_END])}`],
  company: ["Streams", (hop, number) => String(company(hop, number))],
  received: ["Received by", (hop) => us(hop[RECEIVED])],
};

/* A stream has an instant at each hop, or a window that it shares. */
function hopColumns({ shares }) {
  const { port, queue, leaves, end, window, company, received } = HOP_COLUMNS;
  return shares ? [port, queue, window, company, received] : [port, queue, leaves, end, received];
}

/* How many streams have frames in a window with this one's, at most. */
function company(hop, number) {
  const period = plan.streams[number].period_ns, phase = hop[OFFSET] % period;
  const shared = plan.ports[hop[PORT]].windows.filter((each) => each[OPENS] % period === phase);
  return Math.max(...shared.map((each) => each[MEMBERS]).filter((members) => members.includes(number)).map((members) => members.length));
}

function drawHeading() {
  const facts = [counted(plan.streams.length, "stream")];
  if (plan.refused.length) facts.push(`${plan.refused.length.toLocaleString("en")} without a place`);
  facts.push(counted(plan.ports.filter((port) => port.cycle_ns).length, "gated port"), `${duration(plan.span_ns)} shown`);
  if (plan.gate_margin) facts.push(`gate margin ${plan.gate_margin}`);
  if (plan.recovery_ns !== null) {
    const bounded = plan.unbounded ? `${plan.streams.filter((each) => each.recovery_ns !== null).length} of them ` : "";
    facts.push(`${bounded}in time again within ${duration(plan.recovery_ns)} of any one disturbance of up to ${duration(plan.disturbance_ns)}`);
  }
  for (const loop of plan.loops) facts.push(`loop ${loop.name} takes ${us(loop.delay_ns)} of ${us(loop.deadline_ns)} µs allowed`);
  facts.push(`planned by ${plan.algorithm}`);
  byId("facts").append(facts.join(" · "));
  const verdict = byId("verdict"), wrong = plan.verdict.length;
  if (!wrong) {
    const sound = element("p", { id: "verdict" }, "✓ judged sound");
    verdict.replaceWith(sound);
    if (plan.unbounded) sound.after(element("p", { id: "unbounded" }, plan.unbounded));
    return;
  }
  verdict.firstElementChild.append(`✗ breaks ${counted(wrong, "promise")}`);
  verdict.lastElementChild.append(...plan.verdict.map((line) => element("li", {}, line)));
}

function drawLegend() {
  const samples = plan.classes.map((each) => [each.role, `${each.number} ${each.name}: gate open`]);
  samples.push(["frame", "a frame as planned"], ["latest", "on the wire until then at the latest"]);
  if (plan.ports.some((port) => port.windows)) samples.push(["shared", "a window that frames of several streams share"]);
  samples.push(["waiting", "selected: in the queue from then on"]);
  byId("classes").append(...samples.map(([sample, words]) => element("li", {}, element("span", { class: `sample ${sample}` }), words)));
}

function showDetails(stream) {
  byId("stream").replaceChildren(...(stream === null ? nothingSelected() : streamDetails(stream)));
}

function nothingSelected() {
  return [element("p", { class: "hint" }, "Select a stream, in the list or by one of its frames, to see its way and its times.")];
}

/* A path that begins is set off from the one before. */
function hopRow(hop, number) {
  const cells = hopColumns(plan.streams[number]).map(([, text]) => element("td", {}, text(hop, number)));
  return element("tr", { class: hop[PARENT] < 0 ? "start" : "" }, ...cells);
}

function streamDetails(number) {
  const stream = plan.streams[number];
  const facts = `${stream.class}, every ${duration(stream.period_ns)}, ${payloadText(stream)} B; latency ≤ ${us(stream.bound_ns)} of ` +
    `${us(stream.limit_ns)} µs allowed` +
    (stream.jitter_ns === undefined ? "" : `; jitter ≤ ${us(stream.jitter_ns)} of ${us(stream.jitter_limit_ns)} µs allowed`) +
    (stream.recovery_ns === null ? "" : `; in time again within ${duration(stream.recovery_ns)} of a disturbance`);
  const head = element("tr", {}, ...hopColumns(stream).map(([title]) => element("th", { scope: "col" }, title)));
  const rows = stream.hops.map((hop) => hopRow(hop, number));
  return [
    element("h2", {}, stream.name),
    element("p", {}, facts),
    ...forwardingTexts(stream).map((text) => element("p", { class: "forwarding" }, text)),
    ...(stream.theory ? [element("p", {}, theoryText(stream))] : [
      element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)),
      element("p", {}, "µs after the start of the period, clock error included"),
    ]),
    ...guardTexts(stream).map((text) => element("p", { class: "guard" }, text)),
    ...loopTexts(stream).map((text) => element("p", { class: "loop" }, text)),
  ];
}

/* How switches forward frames that have no instants. */
function theoryText({ theory, interval_ns }) {
  if (theory !== "CQF") return `${theory}: the talker sends at any time; the bound is for all such streams together, by network calculus`;
  return `cyclic queuing: each switch sends in the next interval of ${duration(interval_ns)} what it receives in one`;
}

/* What switches know its frames by, where they bridge. */
function forwardingTexts(stream) {
  if (!stream.address) return [];
  const { mac, vlan, pcp } = stream.address, address = `to ${mac}, VLAN ${vlan}, PCP ${pcp}`;
  if (!stream.translation) return [address];
  const { known_by, at, back_at } = stream.translation;
  return [`${at} knows its frames as ${known_by} and sends them ${address}; ${back_at} sends them untagged to the listener`];
}

/* How long the control loop takes that the stream closes with another. */
function loopTexts(stream) {
  return plan.loops.filter((loop) => [loop.sensor, loop.actuator].includes(stream.name)).map((loop) => {
    const [sample, compute, wait, command] = loop.parts_ns.map(us);
    return `loop ${loop.name}: ≤ ${us(loop.delay_ns)} of ${us(loop.deadline_ns)} µs allowed from a sample until its command is at the plant: ` +
      `${loop.sensor} ${sample}, computation ${compute}, wait ${wait}, ${loop.actuator} ${command} µs`;
  });
}

const FATES = { count: "counts", drop: "drops" };

/* What its first and its last switches do for a stream beside forwarding it. */
function guardTexts(stream) {
  const octets = (count) => `${count.toLocaleString("en")} octets`;
  const filters = (stream.filters || []).map((its) => {
    const limits = [`longer than ${octets(its.max_sdu_octets)} behind its EtherType`, `beyond ${octets(its.octets_max)} in a period`];
    if (its.interval_ns) {
      return `${its.port} ${FATES[its.policing]} what is ${limits[0]}, or beyond ${octets(its.octets_max)} on the wire in an interval of ${us(its.interval_ns)} µs`;
    }
    if (its.rate_bps) {
      return `${its.port} ${FATES[its.policing]} what is ${limits[0]}, or beyond ${(its.rate_bps / 1e6).toFixed(3)} Mbit/s with ${octets(its.burst_octets)} at once on the wire`;
    }
    return `${its.port} ${FATES[its.policing]} what comes outside ${us(its.opens_ns)} – ${us(its.closes_ns)} µs, is ${limits.join(", or ")}`;
  });
  const numbered = (stream.numbered || []).map((port) => `${port} numbers its frames`);
  const recovered = (stream.recovered || []).map(
    (its) => `${its.switch} passes the first copy of each from ${its.ports.join(" and ")} (history ${its.history}, reset after ${its.reset_ms} ms)`,
  );
  return [...filters, ...numbered, ...recovered, ...(stream.told || [])];
}
