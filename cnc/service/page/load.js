/* The plan that the service has decided, and who looks at it; nothing is drawn before they are here. */

async function answerOf(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, cache: "no-store" });
  if (answer.status === 401) {
    location.assign("/login");
    await new Promise(() => {});  // the page goes
  }
  const text = await answer.text();
  if (!answer.ok) throw new Error(reasonIn(text) ?? `the service answered ${answer.status}`);
  return JSON.parse(text);
}

function reasonIn(text) {
  try {
    const { error } = JSON.parse(text);
    return error.hint ? `${error.text} (${error.hint})` : error.text;
  } catch {
    return null;
  }
}

async function loaded(path) {
  for (;;) {
    try {
      return await answerOf(path);
    } catch (error) {
      document.getElementById("facts").textContent = `${error.message}; asked again every 5 s`;
      await new Promise((done) => setTimeout(done, 5000));
    }
  }
}

const [who, plan] = await Promise.all([loaded("/api/v1/who"), loaded("/api/v1/page")]);
document.getElementById("facts").textContent = "";
document.querySelector("h1").textContent = plan.name;
document.title = `${plan.name} – live`;
performance.mark("loaded");
