// Moves a page by itself: asks how far the books are, and when they moved, loads the page again and puts what is
// different in its place. Focus, scroll, open details and what somebody is writing stay. No reload, no eval.
"use strict";
(() => {
  const main = document.getElementById("main");
  const asof = document.querySelector(".asof");
  if (!main?.dataset.live || !asof) return;

  const EVERY = 2500; // ms between two questions
  const SHARE = 20; // a page that takes long to make is asked for rarely: 1/20 of the time at most
  const button = document.createElement("button");
  const note = document.createElement("span");
  const kept = sessionStorage.getItem("live");
  let paused = kept ? kept === "paused" : matchMedia("(prefers-reduced-motion: reduce)").matches;
  let wait = EVERY;

  const shown = () => asof.querySelector("b").textContent;
  const dirty = (field) =>
    field.options ? field.selectedIndex !== Math.max(0, [...field.options].findIndex((one) => one.defaultSelected))
      : field.type === "checkbox" || field.type === "radio" ? field.checked !== field.defaultChecked
      : field.value !== field.defaultValue;

  // Somebody writes, chooses or marks text: then the page holds still.
  const busy = () => {
    const at = document.activeElement;
    if (main.contains(at) && at.matches("input, select, textarea")) return true;
    const marked = getSelection();
    if (marked && !marked.isCollapsed && main.contains(marked.anchorNode)) return true;
    return [...main.querySelectorAll("input:not([type=hidden]), select, textarea")].some(dirty);
  };

  const attributes = (old, fresh) => {
    for (const { name } of [...old.attributes])
      if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
    for (const { name, value } of [...fresh.attributes])
      if (old.getAttribute(name) !== value && name !== "open") old.setAttribute(name, value);
  };

  const alike = (old, fresh) => old && old.nodeName === fresh.nodeName && (old.id || "") === (fresh.id || "");

  // Children are told by their id, else by their place, so that a row keeps being the same row.
  const children = (old, fresh) => {
    const known = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
    let at = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      const mine = next.id ? known.get(next.id) : alike(at, next) ? at : null;
      if (!mine) {
        old.insertBefore(document.importNode(next, true), at);
        continue;
      }
      if (mine === at) at = at.nextSibling;
      else old.insertBefore(mine, at);
      put(mine, next);
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  };

  const put = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeName !== fresh.nodeName) return old.replaceWith(document.importNode(fresh, true));
    if (old.nodeType !== Node.ELEMENT_NODE) return void (old.data = fresh.data);
    if (old.dataset.chart) return old.setAttribute("aria-label", fresh.getAttribute("aria-label") || "");
    attributes(old, fresh);
    children(old, fresh);
  };

  const same = (at) => (at.id ? `#${CSS.escape(at.id)}` : at.getAttribute("href") && `a[href="${CSS.escape(at.getAttribute("href"))}"]`);

  const refresh = async () => {
    const began = performance.now();
    const answer = await fetch(location.href, { cache: "no-store", redirect: "error" });
    if (!answer.ok) throw new Error(answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (paused || busy()) return;
    const focused = document.activeElement;
    const way = main.contains(focused) && same(focused);
    put(main, document.adoptNode(fresh.getElementById("main")));
    for (const part of [".asof > b", ".asof > time", ".nav > ul"]) {
      const [old, next] = [document, fresh].map((where) => where.querySelector(part));
      if (old && next) put(old, next);
    }
    if (way && !document.contains(focused)) main.querySelector(way)?.focus({ preventScroll: true });
    wait = Math.max(EVERY, SHARE * (performance.now() - began));
    document.dispatchEvent(new CustomEvent("hallbook:moved"));
  };

  const ask = async () => {
    const answer = await fetch(main.dataset.live, { cache: "no-store", headers: { Accept: "application/json" } });
    if (answer.status === 401) return stop("You are signed out: load the page again.");
    if (!answer.ok) throw new Error(answer.status);
    const said = await answer.json();
    const lag = asof.querySelector("[data-lag]");
    if (lag) lag.textContent = said.lag;
    wait = EVERY;
    const moved = said.position !== shown();
    note.textContent = moved && (paused || busy()) ? `now at ${said.position}` : "";
    if (moved && !paused && !busy()) await refresh();
  };

  let stopped = false;
  const stop = (why) => {
    stopped = true;
    note.setAttribute("role", "status");
    note.textContent = why;
    button.remove();
  };

  const round = async () => {
    if (!document.hidden) await ask().catch(() => { note.textContent = "no answer, trying again"; wait = 4 * EVERY; });
    if (!stopped) setTimeout(round, wait);
  };

  const say = () => {
    button.textContent = paused ? "Follow" : "Pause";
    button.setAttribute("aria-label", paused ? "Follow: let this page move by itself" : "Pause: hold this page still");
    main.dataset.state = paused ? "paused" : "following";
  };
  button.type = "button";
  button.className = "btn quiet live";
  button.addEventListener("click", () => {
    paused = !paused;
    sessionStorage.setItem("live", paused ? "paused" : "following");
    say();
    if (!paused) ask().catch(() => {});
  });
  note.className = "moved";
  asof.append(" ", note, " ", button);
  say();
  setTimeout(round, EVERY);
})();
