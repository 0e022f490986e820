/* The history of rollouts, and what the plan of one changes against the one before. */

const NAMES_MAX = 50;

const ROLLOUT_COLUMNS = [
  ["Rollout", (r) => String(r.number), (r) => r.number],
  ["Started", (r) => clockTime(r.started), (r) => Date.parse(r.started)],
  ["Outcome", (r) => (r.under_way ? "under way" : r.phase)],
  ["By", (r) => `${r.operator}, ${r.what}`],
  ["Switches", (r) => String(Object.keys(r.switches).length), (r) => Object.keys(r.switches).length],
  ["Detail", (r) => r.detail],
];

const rollouts = { kept: [] };

function drawRollouts() {
  addList("rollouts", "rollout", ROLLOUT_COLUMNS, [], (r) => `${r.number} ${r.phase} ${r.operator} ${r.what} ${r.detail}`, openRollout);
  byId("show-rollouts").addEventListener("click", askRollouts);
  askRollouts();
}

async function askRollouts() {
  try {
    rollouts.kept = await answerOf("/api/v1/rollouts");
    refill("rollouts", rollouts.kept);
  } catch (error) {
    watched.trouble = error.message;
    drawSeen();
  }
}

async function openRollout({ number }) {
  selection.choose(null);
  const earlier = rollouts.kept.filter((each) => each.number < number && each.phase === "done");
  const before = Math.max(0, ...earlier.map((each) => each.number));
  const show = (...parts) => byId("stream").replaceChildren(
    element("h2", { "data-rollout": number }, before ? `Rollout ${number} against ${before}` : `Rollout ${number}`), ...parts);
  if (!before) return show(element("p", {}, "There is none before it in the history."));
  show(element("p", {}, "The two plans are being compared …"));
  let parts;
  try {
    parts = differenceParts(await answerOf(`/api/v1/diff?number=${number}&after=${before}`));
  } catch (error) {
    parts = [element("p", { class: "wrong" }, error.message)];
  }
  if (byId("stream").querySelector(`[data-rollout="${number}"]`)) show(...parts);
}

function differenceParts(its) {
  if (its.same) return [element("p", {}, "The plans are the same.")];
  const moved = Object.keys(its.placed).filter((name) => !its.added.includes(name) && !its.removed.includes(name));
  const otherwise = Object.keys(its.wanted).filter((name) => its.wanted[name].before && its.wanted[name].after);
  return [
    ...named("stream", "added", its.added), ...named("stream", "removed", its.removed),
    ...named("stream", "without a place", its.refused), ...named("stream", "moved", moved),
    ...named("stream", "asked for otherwise", otherwise), ...named("section", "of the network changed", Object.keys(its.foundations)),
    ...named("port", "with other gates", Object.keys(its.gates)),
  ];
}

/* Names of so many things, each a way to its stream where the plan has it. */
function named(thing, words, names) {
  if (!names.length) return [];
  const rest = names.length - NAMES_MAX;
  const items = names.slice(0, NAMES_MAX).map((name) => {
    const number = plan.streams.findIndex((each) => each.name === name);
    if (number < 0) return element("li", {}, name);
    const button = element("button", { type: "button" }, name);
    button.addEventListener("click", () => selection.choose(number, "table"));
    return element("li", {}, button);
  });
  if (rest > 0) items.push(element("li", {}, `and ${rest.toLocaleString("en")} more`));
  return [element("h3", {}, `${counted(names.length, thing)} ${words}`), element("ul", { class: "names" }, ...items)];
}
