/* One line: is everything well, and if not, what is it. A part leads to the list that says more. */

const strip = {};

function drawStrip() {
  for (const [name, list, title] of [
    ["seen", null, "Service"], ["conditions", "conditions", "Conditions"], ["switches", "switches", "Switches"],
    ["drift", "ports", "Ports"], ["clocks", "switches", "Clocks"], ["starved", "conditions", "Starvation"],
    ["rollout", "rollouts", "Rollouts"], ["request", "requests", "Requests"],
  ]) {
    const value = element("span", {}, "…");
    strip[name] = element(list ? "button" : "span", { class: "part", id: `strip-${name}`, ...(list ? { type: "button" } : {}) },
      element("small", {}, title), value);
    if (list) strip[name].addEventListener("click", () => showList(list));
    byId("strip").append(strip[name]);
  }
  watched.followers.push(drawWatched);
  setInterval(drawSeen, 1000);
}

/* `well`: true, false, or null where nothing is known. A sign says it, too. */
function say(name, well, words) {
  const part = strip[name], sign = { true: "✓ ", false: "✗ ", null: "" }[well];
  part.classList.toggle("well", well === true);
  part.classList.toggle("wrong", well === false);
  const text = `${sign}${words}`;
  if (part.lastChild.textContent !== text) part.lastChild.textContent = text;
}

function drawSeen() {
  if (watched.trouble) say("seen", false, watched.trouble);
  else if (watched.at !== null) {
    const ago = Math.round((Date.now() - watched.at) / 1000);
    say("seen", ago < 30 ? true : null, ago < 30 ? "live" : `seen ${ago} s ago`);
  }
}

function drawWatched() {
  drawSeen();
  const { now } = watched;
  if (!now) return;
  drawRolledOut(now);
  if (!now.watched) {
    for (const name of ["conditions", "switches", "drift", "clocks", "starved"]) say(name, null, "not known yet");
    return;
  }
  const wrong = now.conditions.length;
  say("conditions", !wrong, wrong ? counted(wrong, "condition") : "none");
  const silent = now.switches.filter((each) => !each.answers).length;
  say("switches", !silent, `${now.switches.length - silent} of ${now.switches.length} answer`);
  const asPlanned = now.ports.filter((each) => each.agrees).length;
  say("drift", asPlanned === now.ports.length, `${asPlanned} of ${now.ports.length} as planned`);
  drawClocks(now);
  const starved = now.conditions.filter((each) => each.kind === "starved").length;
  say("starved", !starved, starved ? counted(starved, "port") : "none");
}

function drawRolledOut({ unfinished, waiting, rollout }) {
  if (unfinished) say("rollout", false, `${unfinished} unfinished`);
  else if (waiting) say("rollout", null, `${counted(waiting, "stream")} on the way`);
  else say("rollout", rollout ? true : null, rollout ? `${rollout} runs` : "none yet");
}

/* By PTP where daemons say it, which is exact; else by what was read over NETCONF. */
function drawClocks({ switches, conditions, clock_error_ns: allowed }) {
  const off = conditions.some((each) => ["clock-error", "clock-offset", "tai-offset", "ptp-unlocked"].includes(each.kind));
  const measured = switches.map((each) => each.ptp?.offset_ns).filter((each) => each !== null && each !== undefined).map(Math.abs);
  const words = measured.length ? `≤ ${duration(Math.max(...measured))} off, ${duration(allowed)} allowed` : "no PTP figures";
  say("clocks", off ? false : measured.length ? true : null, words);
}
