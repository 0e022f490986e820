/* Of the selected stream: whose it is, whether it runs, and what switches count along its way. */

const COUNTER_COLUMNS = ["port", "sent", "waiting", "dropped", "late at gate"];

function drawCounters() {
  selection.followers.push(askCounters);
  watched.followers.push(() => { if (selection.stream !== null) askCounters(selection.stream); });
}

async function askCounters(number) {
  if (number === null) return;
  const { name } = plan.streams[number];
  let parts;
  try {
    parts = counterParts(await answerOf(`/api/v1/counters?stream=${encodeURIComponent(name)}`));
  } catch (error) {
    parts = [element("p", {}, error.message)];
  }
  if (selection.stream !== number) return;
  const place = byId("counters") ?? element("div", { id: "counters" });
  place.replaceChildren(element("h3", {}, "Now"), ...parts);
  if (!place.isConnected) byId("stream").append(place);
}

function counterParts({ owner, ports, streams }) {
  const parts = [element("p", {}, owner ? ownerText(owner) : "fixed by the intent file")];
  const cells = (row, tag) => row.map((text) => element(tag, {}, text));
  if (ports.length) {
    const rows = ports.map((its) => [its.port, its.sent, its.waiting, its.dropped, its.overruns].map((each) => each?.toLocaleString("en") ?? "–"));
    parts.push(
      element("table", {}, element("thead", {}, element("tr", {}, ...cells(COUNTER_COLUMNS, "th"))),
        element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells(row, "td"))))),
      element("p", {}, `frames of its class, ${ports[0].class}, since the gates of the port were set`),
    );
  }
  return [...parts, ...streams.map((text) => element("p", {}, text))];
}

function ownerText({ cuc, stream_id: id, state, rollout, reason }) {
  const runs = rollout ? `${state} by rollout ${rollout}` : state;
  return `asked for by ${cuc} as ${id}: ${runs}${reason ? `; ${reason}` : ""}`;
}
