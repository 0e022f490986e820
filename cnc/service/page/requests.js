/* What CUCs ask for and what becomes of it, as it comes: the service's stream of events. */

const EVENTS_SHOWN = 500;
const EVENTS_BEFORE = 200;  // those before the page was opened
const RETRY_MS = 3000;

const REQUEST_COLUMNS = [
  ["When", (e) => clockTime(e.time), (e) => e.number],
  ["What", (e) => KINDS[e.kind] ?? e.kind],
  ["CUC", (e) => e.cuc ?? "–"],
  ["Stream", streamOfEvent],
  ["More", moreOfEvent],
];

const KINDS = {
  "stream-placed": "✓ placed", "stream-refused": "✗ refused", "stream-configured": "runs", "stream-removed": "removed",
  "rollout-done": "✓ rollout", "rollout-failed": "✗ rollout failed", "plan-unsound": "✗ plan unsound", computed: "computed",
};
/* After these the plan is another one. */
const CHANGES = ["stream-placed", "stream-removed", "computed"];

const requests = { events: [], newest: 0, source: null };

function streamOfEvent(event) {
  if (event.stream_id) return event.stream_id;
  if (typeof event.streams === "number") return event.streams ? counted(event.streams, "stream") : "–";
  return (event.streams ?? []).join(", ") || "–";
}

function moreOfEvent(event) {
  const failed = Object.entries(event.failed ?? {}).map(([stream, reason]) => `${stream}: ${reason}`);
  const rollout = event.rollout ? `rollout ${event.rollout}` : null;
  const again = event.next_try_s ? `next attempt in ${event.next_try_s} s` : null;
  return [event.reason, event.hint, ...failed, rollout, again].filter(Boolean).join("; ");
}

function drawRequests() {
  addList("requests", "event", REQUEST_COLUMNS, [],
    (e) => [KINDS[e.kind] ?? e.kind, e.cuc, streamOfEvent(e), moreOfEvent(e)].join(" "), openEvent);
  const begin = () => {
    if (!watched.now || requests.source) return;
    requests.newest = Math.max(0, watched.now.newest_event - EVENTS_BEFORE);
    follow();
  };
  watched.followers.push(begin);
}

/* The browser itself asks again after a break, with the number of the last event that it has. */
function follow() {
  requests.source = new EventSource(`/api/v1/events?after=${requests.newest}`);
  requests.source.addEventListener("message", ({ data }) => take(JSON.parse(data)));
  requests.source.addEventListener("error", () => { if (requests.source.readyState === EventSource.CLOSED) again(); });
  requests.source.addEventListener("end", again);  // the core has refused to go on
}

function again() {
  requests.source.close();
  setTimeout(follow, RETRY_MS);
  look();  // which finds out whether the session is over
}

function take(event) {
  if (event.number <= requests.newest) return;
  requests.newest = event.number;
  requests.events.unshift(event);
  requests.events.length = Math.min(requests.events.length, EVENTS_SHOWN);
  showRequests();
  if (event.number > (watched.now?.newest_event ?? 0)) {
    look();
    if (event.kind.startsWith("rollout")) askRollouts();
  }
}

const showRequests = onceAFrame(() => {
  refill("requests", requests.events);
  const last = requests.events.find((event) => event.cuc);  // rollouts have a line of their own
  if (!last) return say("request", null, "none yet");
  const failed = last.kind.endsWith("refused") || last.kind.endsWith("failed");
  say("request", !failed, `${last.cuc} ${(KINDS[last.kind] ?? last.kind).replace(/^[✓✗] /, "")}, ${clockTime(last.time)}`);
});

/* As `cnc.service.names` has it. */
function planName({ cuc, stream_id: id }) {
  return `${cuc}__${id.replaceAll(":", "_")}`;
}

function openEvent(event) {
  if (event.rollout && !event.stream_id) return openRollout({ number: event.rollout });
  const number = event.stream_id ? plan.streams.findIndex(({ name }) => name === planName(event)) : -1;
  if (number >= 0) selection.choose(number, "table");
}
