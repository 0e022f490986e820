/* Further lists beside streams and ports: conditions, switches, notices, and how each port is now. */

const CONDITION_COLUMNS = [
  ["Where", (c) => placeText(c)],
  ["Condition", (c) => c.kind],
  ["Since", (c) => clockTime(c.since), (c) => Date.parse(c.since)],
  ["What it is", (c) => c.text],
];

const NOTICE_COLUMNS = [
  ["When", (n) => clockTime(n.at), (n) => Date.parse(n.at)],
  ["Where", (n) => placeText(n)],
  ["What", (n) => n.kind],
  ["More", (n) => n.text],
];

const SWITCH_COLUMNS = [
  ["Switch", (s) => s.name],
  ["State", (s) => (!s.answers ? "does not answer" : s.agent ? "answers" : "its agent is down")],
  ["Clock ms", (s) => (s.clock_offset_ns === null ? "–" : String(Number((s.clock_offset_ns / 1e6).toFixed(1)))), (s) => s.clock_offset_ns ?? Infinity],
  ["PTP ns", (s) => (s.ptp?.offset_ns ?? "–").toLocaleString("en"), (s) => s.ptp?.offset_ns ?? Infinity],
  ["Follows", (s) => (!s.ptp ? "–" : s.ptp.is_grandmaster ? "is grandmaster" : s.ptp.locked ? s.ptp.grandmaster : "nobody")],
  ["TAI − UTC s", (s) => String(s.tai_offset_s ?? "–"), (s) => s.tai_offset_s ?? Infinity],
];

function placeText({ switch: name, port }) {
  return port ? `${name}/${port}` : name ?? "network";
}

function portText(port) {
  const now = portNow(port.name), { node } = port;
  if (!watched.now) return "…";
  if (!now) return plan.nodes[node].bridge ? "not known" : "–";
  const wrong = conditionsOf(plan.nodes[node].name, port.name.split("/").slice(1).join("/")).map((each) => each.kind);
  if (wrong.length) return `✗ ${wrong.join(", ")}`;
  return now.agrees ? ["✓ as planned", ...now.told].join("; ") : "✗ drift";
}

function drawLiveLists() {
  addList("conditions", "condition", CONDITION_COLUMNS, [], (c) => `${placeText(c)} ${c.kind} ${c.text}`, openCondition);
  addList("switches", "switch", SWITCH_COLUMNS, [], (s) => `${s.name} ${s.ptp?.grandmaster ?? ""}`, ({ name }) => filterBy("ports", name));
  addList("notices", "notice", NOTICE_COLUMNS, [], (n) => `${placeText(n)} ${n.kind} ${n.text}`, openCondition);
  const column = ["Now", portText], { ports } = lists;
  ports.columns = [...ports.columns, column];
  ports.table.tHead.rows[0].append(heading(ports, column));
  ports.dress = (row, index) => { row.lastChild.classList.add("now"); showPortNow(row, index); };
  watched.followers.push(refillLists);
}

function showPortNow(row, index) {
  const text = portText(plan.ports[index]), cell = row.lastChild;
  if (cell.textContent !== text) cell.textContent = text;
  row.classList.toggle("wrong", text.startsWith("✗"));
}

function refillLists() {
  if (!watched.now) return;
  refill("conditions", watched.now.conditions);
  refill("switches", watched.now.switches);
  refill("notices", watched.now.notices);
  lists.ports.rows.forEach(showPortNow);  // those that were made
}

/* Other rows, in the order that was chosen; nothing is touched while they stay the same. */
function refill(name, items) {
  const list = lists[name], text = JSON.stringify(items);
  if (list.filled === text) return;
  list.filled = text;
  fillTable(list, items);
  if (shownList === name) filterLists(); else showRows(list, 0);
  const button = byId(`show-${name}`);
  button.dataset.count = items.length;
}

function filterBy(name, words) {
  byId("filter").value = words;
  showList(name);
}

function openCondition(condition) {
  const number = plan.ports.findIndex((each) => each.name === placeText(condition));
  if (number >= 0) openPort(plan.ports[number]);
}
