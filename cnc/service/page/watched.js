/* What the service knows of the switches now: asked for again and again while the page is in sight. */

const EVERY_MS = 5000;
const KEEP_ROLLOUTS_MS = 60000;

const watched = { now: null, at: null, trouble: null, followers: [] };
let asking = null, askAgain = false;

/* Ask now; while an answer is on its way, once more after it. */
function look() {
  if (asking) askAgain = true;
  else asking = lookOnce().finally(() => {
    asking = null;
    if (askAgain) { askAgain = false; look(); }
  });
}

async function lookOnce() {
  try {
    watched.now = await answerOf("/api/v1/live");
    watched.at = Date.now();
    watched.trouble = null;
  } catch (error) {
    watched.trouble = error.message;
  }
  for (const follower of watched.followers) follower();
}

function startLooking() {
  look();
  setInterval(() => { if (!document.hidden) look(); }, EVERY_MS);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
}

/* Of a port, by its name. */
function portNow(name) {
  return watched.ports?.get(name);
}

watched.followers.push(() => {
  if (watched.now) watched.ports = new Map(watched.now.ports.map((each) => [each.port, each]));
});

function conditionsOf(switchName, port) {
  return (watched.now?.conditions ?? []).filter((each) => each.switch === switchName && (port === undefined || each.port === port));
}

/* By this machine's clock and in its words. */
function clockTime(instant) {
  const at = new Date(instant), today = at.toDateString() === new Date().toDateString();
  return today ? at.toLocaleTimeString() : at.toLocaleString();
}
