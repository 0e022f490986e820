"use strict";

/* The plan of a page that is one file: it lies in a block of the page that is not executable. */

const plan = JSON.parse(document.getElementById("plan").textContent);
