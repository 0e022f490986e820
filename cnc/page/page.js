/* Start, and the keys that work everywhere. */

function onGlobalKey(event) {
  if (event.key === "Escape") selection.choose(null);
  if (event.key === "/" && event.target !== byId("filter")) {
    event.preventDefault();
    byId("filter").focus();
  }
}

drawHeading();
drawLegend();
showDetails(null);
selection.followers.push(showDetails);
drawTopology();
drawTables();
startTimeline();
addEventListener("keydown", onGlobalKey);
requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("shown")));
