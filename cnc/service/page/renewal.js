/* When the service has decided another plan, the page says so and loads it, with what one looks at. */

const QUICK_MS = 1500;  // a page that was drawn faster than this is drawn anew unasked
const CALM_MS = 1000;   // for so long nobody has touched it
const KEPT = "kept-view";

const renewal = { touched: 0, timer: null };

function startRenewal() {
  restoreView();
  for (const kind of ["pointerdown", "pointermove", "keydown", "wheel", "input"]) {
    addEventListener(kind, () => { renewal.touched = Date.now(); }, { passive: true });
  }
  byId("renew").addEventListener("click", renew);
  watched.followers.push(noteNewPlan);
}

function noteNewPlan() {
  const isNew = watched.now !== null && watched.now.decided !== plan.number;
  byId("renewal").hidden = !isNew;
  if (isNew && renewal.timer === null && performance.getEntriesByName("drawn")[0].duration < QUICK_MS) {
    renewal.timer = setInterval(() => { if (Date.now() - renewal.touched > CALM_MS) renew(); }, CALM_MS);
  }
}

function renew() {
  clearInterval(renewal.timer);
  const view = {
    at: Date.now(),
    stream: selection.stream === null ? null : plan.streams[selection.stream].name,
    list: shownList, filter: byId("filter").value, from: timeline.from, to: timeline.to,
    compact: byId("compact").checked, only: byId("only").checked,
    rollout: Number(byId("stream").querySelector("[data-rollout]")?.dataset.rollout ?? 0),
  };
  sessionStorage.setItem(KEPT, JSON.stringify(view));
  location.reload();
}

function restoreView() {
  const view = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  sessionStorage.removeItem(KEPT);
  if (!view || Date.now() - view.at > 60000) return;
  byId("compact").checked = view.compact;
  byId("only").checked = view.only;
  byId("filter").value = view.filter;
  showList(view.list in lists ? view.list : "streams");
  const number = plan.streams.findIndex(({ name }) => name === view.stream);
  if (number >= 0) selection.choose(number);
  else arrange();
  show(view.from, view.to);
  if (view.rollout) openRollout({ number: view.rollout });
}
