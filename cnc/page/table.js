/* Streams with their bounds, and ports: sorted by any column, filtered by words. */

const ROWS_MAX = 1000;  // in the document at a time: a browser lays out ten thousand in seconds

/* Makes `table` of `items`. A column is [title, text of an item, what to sort by if that is a number];
   `words` are what the filter looks at, `open` is what a row does. Rows are made when they are first
   shown; `dress` is called of each, with the number of its item. */
function makeTable(table, columns, items, words, open) {
  const list = { table, body: element("tbody"), columns, wordsOf: words, open, order: null, dress: () => {} };
  list.edges = [-1, 1].map((way) => edge(list, way));
  fillTable(list, items);
  table.append(element("thead", {}, element("tr", {}, ...columns.map((column) => heading(list, column)))),
    list.body);
  list.body.addEventListener("keydown", (event) => moveInTable(event));
  return list;
}

function fillTable(list, items) {
  list.items = items;
  list.rows = [];
  list.words = items.map((item) => list.wordsOf(item).toLowerCase());
  list.sorted = items.map((_, index) => index);
  list.matching = list.sorted;
  if (list.order) sortRows(list);
}

/* The rows before or behind those in the document: how many they are, and the way to them. */
function edge(list, way) {
  const button = element("button", { type: "button" });
  button.addEventListener("click", () => {
    showRows(list, list.from + way * ROWS_MAX);
    list.body.querySelector(way < 0 ? "tr:last-child" : "tr:first-child").scrollIntoView({ block: "nearest" });
  });
  const row = element("tr", {}, element("td", { colspan: list.columns.length }, button));
  return { button, body: element("tbody", { class: "edge" }, row) };
}

/* Of the rows that match, those from a place on. */
function showRows(list, from) {
  list.from = Math.max(0, Math.min(from, list.matching.length - 1));
  const numbers = list.matching.slice(list.from, list.from + ROWS_MAX);
  list.body.replaceChildren(...numbers.map((number) => rowOf(list, number)));
  const rest = list.matching.length - list.from - numbers.length;
  const [before, behind] = list.edges;
  before.button.textContent = `${list.from.toLocaleString("en")} before`;
  behind.button.textContent = `${rest.toLocaleString("en")} more`;
  if (list.from) list.body.before(before.body); else before.body.remove();
  if (rest) list.body.after(behind.body); else behind.body.remove();
}

function rowOf(list, number) {
  if (!list.rows[number]) {
    list.rows[number] = tableRow(list.columns, list.items[number], list.open);
    list.dress(list.rows[number], number);
  }
  return list.rows[number];
}

function tableRow(columns, item, open) {
  const cells = columns.map(([, text, value], index) => {
    const cell = element("td", { class: value ? "number" : text === pathText ? "long" : "" });
    cell.append(index ? text(item) : element("button", { type: "button" }, text(item)));
    return cell;
  });
  const row = element("tr", {}, ...cells);
  row.addEventListener("click", () => open(item));
  return row;
}

function heading(list, [title, text, value]) {
  const button = element("button", { type: "button" }, title);
  const cell = element("th", { scope: "col", class: value ? "number" : "" }, button);
  button.addEventListener("click", () => sortBy(list, cell, value || text));
  return cell;
}

function sortBy(list, cell, value) {
  const down = cell.getAttribute("aria-sort") === "ascending";
  for (const other of cell.parentNode.children) other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort", down ? "descending" : "ascending");
  list.order = { value, down };
  sortRows(list);
  filterLists();
}

function sortRows(list) {
  const { value, down } = list.order;
  const keyed = list.items.map((item, index) => [value(item), index]);
  keyed.sort(([a], [b]) => (down ? compare(b, a) : compare(a, b)));
  list.sorted = keyed.map(([, index]) => index);
}

const { compare: compareText } = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  return typeof a === "number" ? a - b : compareText(a, b);
}

/* Arrow keys go from row to row. */
function moveInTable(event) {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  if (!step) return;
  event.target.closest("tr")[step]?.querySelector("button").focus();
  event.preventDefault();
}

const STREAM_COLUMNS = [
  ["Stream", (s) => s.name],
  ["Class", (s) => s.class || "–"],
  ["Period µs", (s) => us(s.period_ns), (s) => s.period_ns],
  ["Payload B", payloadText, (s) => s.payload * (s.frames ?? 1)],
  ["Bound µs", (s) => (s.why ? "–" : us(s.bound_ns)), (s) => (s.why ? Infinity : s.bound_ns)],
  ["Allowed µs", (s) => us(s.limit_ns), (s) => s.limit_ns],
  ["Slack µs", slackText, slack],
  ...(plan.recovery_ns === null ? [] : [["Recovers in µs", recoveryText, recovery]]),
  ["Path", pathText],
];

const PORT_COLUMNS = [
  ["Port", (p) => p.name],
  ["To", (p) => plan.nodes[p.to].name],
  ["Rate", (p) => p.rate],
  ["Planned", (p) => percent(p.load), (p) => p.load],
  ["Cycle µs", (p) => (p.cycle_ns ? us(p.cycle_ns) : "–"), (p) => p.cycle_ns],
  ["Entries", (p) => (p.cycle_ns ? String(p.entries) : "–"), (p) => p.entries],
];

/* The octets of a frame, and how many of them a period has where there are several. */
function payloadText(stream) {
  return stream.frames === undefined ? String(stream.payload) : `${stream.frames} × ${stream.payload}`;
}

function slack(stream) {
  return stream.why ? -Infinity : stream.limit_ns - stream.bound_ns;
}

function slackText(stream) {
  return stream.why ? "no place" : us(slack(stream));
}

/* How long after a disturbance it may be late, if the plan says so. */
function recovery(stream) {
  return stream.recovery_ns ?? Infinity;
}

function recoveryText(stream) {
  return recovery(stream) === Infinity ? "–" : us(stream.recovery_ns);
}

function pathText(stream) {
  if (stream.why) return stream.why;
  return stream.ways.map((way) => nodeNames(way).join(" → ")).join("; ");
}

function streamWords(stream) {
  const ports = portsOf(stream).map((port) => plan.ports[port].name);
  const ends = nodeNames([stream.talker, ...stream.listeners]);
  return [stream.name, stream.class, ...ends, ...ports, pathText(stream), stream.address?.mac ?? ""].join(" ");
}

const lists = {};
let shownList = "streams";

function drawTables() {
  addList("streams", "stream", STREAM_COLUMNS, [...plan.streams, ...plan.refused], streamWords, openStream);
  addList("ports", "port", PORT_COLUMNS, plan.ports, (p) => `${p.name} ${plan.nodes[p.to].name}`, openPort);
  lists.streams.dress = (row, index) => {
    row.classList.toggle("wrong", slack(lists.streams.items[index]) < 0);
    markChosen(row, index, selection.stream);
  };
  byId("filter").addEventListener("input", filterLists);
  selection.followers.push(markRow);
  showList("streams");
}

/* A list with a button that shows it; `what` is one of its rows. */
function addList(name, what, ...table) {
  lists[name] = Object.assign(makeTable(byId(name), ...table), { what });
  byId(`show-${name}`).addEventListener("click", () => showList(name));
}

function openStream(stream) {
  const number = plan.streams.indexOf(stream);
  if (number >= 0) selection.choose(number, "table");
}

function openPort(port) {
  scrollToPort(plan.ports.indexOf(port));
}

/* A cable was clicked: who uses it, and its gates. */
function showPort(number) {
  byId("filter").value = plan.ports[number].name;
  showList("streams");
  scrollToPort(number);
}

function showList(name) {
  shownList = name;
  for (const each of Object.keys(lists)) {
    byId(each).hidden = each !== name;
    byId(`show-${each}`).setAttribute("aria-pressed", each === name);
  }
  filterLists();
}

function filterLists() {
  const wanted = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const list = lists[shownList];
  list.matching = list.sorted.filter((index) => wanted.every((word) => list.words[index].includes(word)));
  showRows(list, 0);
  const shown = list.matching.length, all = counted(list.items.length, list.what);
  byId("count").value = shown === list.items.length ? all : `${shown.toLocaleString("en")} of ${all}`;
}

function markChosen(row, index, stream) {
  row.classList.toggle("chosen", index === stream);
  row.querySelector("button").setAttribute("aria-pressed", index === stream);
}

function markRow(stream, from) {
  const list = lists.streams;
  list.rows.forEach((row, index) => markChosen(row, index, stream));  // of those that were made
  if (stream === null || from === "table") return;
  const place = list.matching.indexOf(stream);
  if (place < 0) return;
  if (place < list.from || place >= list.from + ROWS_MAX) showRows(list, place - ROWS_MAX / 2);
  list.rows[stream].scrollIntoView({ block: "nearest" });
}
