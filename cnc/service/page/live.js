/* Start of what is live, after the plan is drawn. */

function drawSession() {
  byId("who").textContent = who.name === who.role ? who.role : `${who.name} (${who.role})`;
}

drawSession();
drawStrip();
drawLiveLists();
drawMarks();
drawRequests();
drawRollouts();
drawCounters();
startRenewal();
startLooking();
performance.measure("drawn", "loaded");
