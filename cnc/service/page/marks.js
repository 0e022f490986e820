/* What is wrong where, in the picture of the network: a sign beside the name, and the words to it. */

const SIGN = " ⚠";

function drawMarks() {
  watched.followers.push(markTroubles);
}

function markTroubles() {
  if (!watched.now) return;
  const words = new Map();
  for (const each of watched.now.conditions) {
    const line = `${placeText(each)}: ${each.kind}, ${each.text}`;
    for (const place of new Set([each.switch, placeText(each)])) words.set(place, [...(words.get(place) ?? []), line]);
  }
  topology.nodes.forEach((mark, number) => {
    const { name } = plan.nodes[number], wrong = words.get(name) ?? [];
    setMark(mark, wrong, [name, ...wrong].join("\n"));
    mark.lastChild.textContent = wrong.length ? name + SIGN : name;
  });
  topology.halves.forEach((mark, number) => {
    const port = plan.ports[number], wrong = words.get(port.name) ?? [];
    mark.planned ??= mark.firstChild.textContent;
    setMark(mark, wrong, [mark.planned, ...wrong].join("\n"));
  });
  placeLabels();
}

function setMark(mark, wrong, title) {
  mark.classList.toggle("trouble", wrong.length > 0);
  mark.firstChild.textContent = title;
}
