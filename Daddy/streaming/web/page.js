"use strict";
// Requests the changes since the last answer, draws them, and requests again: a slow browser is at
// most one picture behind. docs/decisions/36 has the reason for polling instead of a push.

const WIDE = 160, TALL = 144, PICTURE = WIDE * TALL / 4;
const PATIENCE_MS = 4000, AGAIN_MS = 1000, MOST = 16, PHONE = 560, BAND = 160, NEWS = 3;
const $ = (id) => document.getElementById(id);
const pictures = new Map();  // tag -> bytes, of the panels that are shown
const panels = [];
let appearance, theme = 0, facts = null, factsTag = "", live = [], alone = "", lost = "";

const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;
const grouped = (number) => number.toLocaleString("en");
const css = ([red, green, blue]) => `rgb(${red}, ${green}, ${blue})`;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const nextFrame = () => new Promise(requestAnimationFrame);

function short(number) {
  if (number < 1e4) return grouped(number);
  return number < 1e6 ? `${(number / 1e3).toFixed(1)}k` : `${(number / 1e6).toFixed(2)}M`;
}

// ---- requests ----

async function request(path, options = {}) {
  const answer = await fetch(path, { ...options, signal: AbortSignal.timeout(PATIENCE_MS) });
  if (answer.status === 403) throw new Error((await answer.text()).trim());
  if (!answer.ok) throw new Error("");
  return answer;
}

function unpack(message) {
  const length = new DataView(message).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(message, 4, length)));
  head.new.forEach((tag, index) =>
    pictures.set(tag, new Uint8Array(message, 4 + length + index * PICTURE, PICTURE)));
  return head;
}

async function fetchNews() {
  const had = { facts: factsTag, world: worldTag, pictures: [...pictures.keys()].join(",") };
  const head = unpack(await (await request(`/news?${new URLSearchParams(had)}`)).arrayBuffer());
  if (head.facts) facts = head.facts;
  if (head.world) world = head.world;
  ({ facts: factsTag, world: worldTag } = head.tags);
  live = head.live;
  const shown = new Set(live.map(([tag]) => tag));
  for (const tag of pictures.keys()) if (!shown.has(tag)) pictures.delete(tag);
}

async function watch() {
  for (;;) {
    try {
      await fetchNews();
      if (!document.hidden) lost = "";
    } catch (error) {
      const reason = error instanceof TypeError || error.name === "TimeoutError" ? "" : error.message;
      showError(reason || "The connection to the viewer is lost. Trying again …");
      await pause(AGAIN_MS);
      continue;
    }
    draw();
    await nextFrame();  // a hidden page gets no animation frame, so it sends no request
  }
}

function showError(sentence) {
  lost = sentence;
  draw();
}

function requestAgents(topK) {
  if (facts && topK >= 1 && topK <= MOST && topK !== facts.top_k)
    request(`/wish?top_k=${topK}`, { method: "POST" }).catch(() => showError("The request did not arrive."));
}

// ---- drawing ----

function draw() {
  put($("gone"), lost);
  $("gone").hidden = !lost;
  document.body.classList.toggle("lost", Boolean(lost));
  if (!facts) return;
  drawHeader();
  if (!facts.panels.some((row) => row.agent === alone)) alone = "";
  const waits = facts.panels.length === 0;
  $("waiting").hidden = !waits;
  if (waits) drawWaiting();
  drawPanels();
  $("band").hidden = waits;
  if (!waits) drawWorld();
  drawNews();
}

function drawHeader() {
  put($("run"), facts.run);
  const [text, mood] = lost ? ["not connected to the viewer", "alarm"] : facts.state;
  put($("state"), text);
  $("state").className = mood;
  put($("fleet"), facts.fleet);
}

function drawWaiting() {
  const items = facts.steps.map(([kind, text]) => {
    const item = document.createElement("li");
    item.className = kind || "later";
    item.textContent = text;
    return item;
  });
  $("steps").replaceChildren(...items);
  put($("caption"), facts.copy[0]);
  put($("copied-line"), facts.copy[1]);
}

function drawPanels() {
  const shown = facts.panels.map((row, index) => [row, live[index] || ["", 0, 0]])
    .filter(([row]) => !alone || row.agent === alone);
  while (panels.length > shown.length) panels.pop().element.remove();
  while (panels.length < shown.length) panels.push(newPanel());
  document.body.classList.toggle("alone", Boolean(alone));
  arrange(shown.length);
  shown.forEach(([row, now], index) => drawPanel(panels[index], row, now));
}

function newPanel() {
  const element = $("panel").content.firstElementChild.cloneNode(true);
  const part = (name) => element.querySelector(`.${name}`);
  const panel = { element, part, context: element.querySelector("canvas").getContext("2d"), drawn: "" };
  const toggle = () => { alone = alone ? "" : panel.name; draw(); };
  part("screen").addEventListener("click", toggle);
  part("screen").addEventListener("keydown", (event) => { if (event.key === "Enter") toggle(); });
  part("badges").replaceChildren(...[...appearance.badges].map(badge));
  $("grid").append(element);
  return panel;
}

function badge(sign) {
  const shape = document.createElement("span");
  shape.textContent = sign;
  return shape;
}

function drawPanel(panel, row, [tag, age, silent]) {
  const { part } = panel;
  panel.name = row.agent;
  panel.element.classList.toggle("stale", row.stale);
  put(part("name"), row.agent);
  put(part("job"), row.job ? `job ${row.job}` : "");
  put(part("score"), `score ${row.score}`);
  put(part("why"), `${count(row.badges, "badge")} + ${count(row.story_flags, "flag")}`);
  put(part("map"), row.map);
  put(part("level"), row.level ? `L${row.level}` : "");
  put(part("host"), row.host);
  put(part("steps"), `${short(row.step)} steps`);
  put(part("return"), `return ${row.return.toFixed(1)}`);
  put(part("age"), !tag || lost ? "" : `${age.toFixed(1)} s old`);
  put(part("veil"), !tag ? "the first picture is on its way"
    : lost ? "not live" : row.stale ? `no new picture for ${silent.toFixed(0)} s` : "");
  part("badges").setAttribute("aria-label", `${row.badges} of ${appearance.badges.length} badges`);
  [...part("badges").children].forEach((shape, number) => shape.classList.toggle("won", number < row.badges));
  curve(part("curve"), row.returns, Math.min(...row.returns), Math.max(...row.returns));
  paint(panel, tag);
}

function paint(panel, tag) {
  const wanted = `${tag} ${theme}`;
  if (panel.drawn === wanted) return;
  const bytes = pictures.get(tag);
  panel.drawn = wanted;
  if (!bytes) {
    panel.context.clearRect(0, 0, WIDE, TALL);
    return;
  }
  const image = panel.context.createImageData(WIDE, TALL);
  const pixels = new Uint32Array(image.data.buffer);
  const shades = appearance.themes[theme].words;
  for (let at = 0, pixel = 0; at < PICTURE; at += 1) {
    const four = bytes[at];
    pixels[pixel++] = shades[four >> 6];
    pixels[pixel++] = shades[four >> 4 & 3];
    pixels[pixel++] = shades[four >> 2 & 3];
    pixels[pixel++] = shades[four & 3];
  }
  panel.context.putImageData(image, 0, 0);
}

function curve(svg, values, low, high) {
  const span = high - low || 1;
  const points = values.length < 2 ? ""
    : values.map((value, x) => `${x},${(29 - 28 * (value - low) / span).toFixed(1)}`).join(" ");
  if (svg.dataset.points === points) return;
  svg.dataset.points = points;
  const last = Math.max(1, values.length - 1);
  svg.setAttribute("viewBox", `0 0 ${last} 30`);
  svg.querySelector("polyline").setAttribute("points", points);
  svg.querySelector("polygon").setAttribute("points", points && `0,30 ${points} ${last},30`);
}

function drawNews() {
  const lines = facts.notes.slice(0, NEWS);
  const json = JSON.stringify(lines);
  if ($("news").dataset.json === json) return;
  $("news").dataset.json = json;
  $("news").replaceChildren(...lines.map((text) => {
    const line = document.createElement("div");
    line.textContent = text;
    return line;
  }));
}

// ---- layout ----

const STYLES = {  // room that a panel needs beside its picture, in CSS pixels: width, height
  below: [16, 156], beside: [290, 18], flush: [0, 144], small: [16, 84], tight: [0, 70],
};

const gapOf = (style) => style === "tight" || style === "flush" ? 0 : 8;

// Chooses the largest pictures that need no scrolling; among equals the style with more text. The
// band is visible if it costs the pictures at most a third. With tiny pictures, and on a phone, the
// page scrolls. A pixel of the game is a whole number of screen pixels.
function arrange(number) {
  const ratio = window.devicePixelRatio || 1;
  const width = document.documentElement.clientWidth;
  const room = window.innerHeight - document.querySelector("header").offsetHeight - 4;
  const whole = (size) => Math.floor(size * ratio) / ratio;
  let best = largest(number, width, room, whole);
  const banded = largest(number, width, room - BAND, whole);
  if (banded.scale >= best.scale * 2 / 3) best = banded;
  if (best.scale < 1.5 || width < PHONE) best = scrolling(width, whole, number);
  lay(best, width);
}

function largest(number, width, room, whole) {
  let best = { scale: 0 };
  for (const [style, [wide, tall]] of Object.entries(STYLES)) {
    for (let columns = 1; columns <= number; columns += 1) {
      const gap = gapOf(style);
      const rows = Math.ceil(number / columns);
      const across = ((width - gap * (columns + 1)) / columns - wide) / WIDE;
      const down = ((room - gap * rows) / rows - tall) / TALL;
      const scale = whole(Math.min(across, down));
      if (scale > best.scale && (style !== "beside" || scale >= 1.5)) best = { scale, style, columns };
    }
  }
  return best;
}

function scrolling(width, whole, number) {
  const columns = Math.max(1, Math.min(number, Math.floor((width - 8) / (2 * WIDE + 24))));
  const scale = whole(Math.min(2, ((width - 8 * (columns + 1)) / columns - 16) / WIDE));
  return { scale: Math.max(scale, 1), style: "below", columns };
}

function lay({ scale, style, columns }, width) {
  const gap = gapOf(style);
  const set = (name, value) => document.documentElement.style.setProperty(name, value);
  const most = (width - gap * (columns + 1)) / columns;
  set("--wide", `${scale * WIDE}px`);
  set("--tall", `${scale * TALL}px`);
  set("--gap", `${gap}px`);
  set("--columns", columns);
  set("--cell", `${style === "beside" ? most : Math.min(most, scale * WIDE + STYLES[style][0])}px`);
  const grid = $("grid").classList;
  grid.toggle("beside", style === "beside");
  grid.toggle("tight", gap === 0);
  grid.toggle("small", style === "small" || style === "tight");
  grid.toggle("narrow", scale * WIDE < 300 && style !== "beside");
}

// ---- keys and buttons ----

function applyTheme(number) {
  theme = number % appearance.themes.length;
  const { shades, back, panel, accent, alarm } = appearance.themes[theme];
  const named = { back, panel, accent, alarm, ink: shades[0], soft: shades[1], faint: shades[2], dark: shades[3] };
  for (const [name, colour] of Object.entries(named))
    document.documentElement.style.setProperty(`--${name}`, css(colour));
  try { localStorage.setItem("palette", appearance.themes[theme].name); } catch { /* a private window */ }
  draw();
}

function initThemes() {
  for (const palette of appearance.themes)  // as in a canvas: red in the first byte
    palette.words = palette.shades.map((shade) => new Uint32Array(new Uint8Array([...shade, 255]).buffer)[0]);
  let kept = "";
  try { kept = localStorage.getItem("palette"); } catch { /* a private window */ }
  applyTheme(Math.max(0, appearance.themes.findIndex((palette) => palette.name === kept)));
}

async function copy() {
  if ($("waiting").hidden) return;
  try {
    await navigator.clipboard.writeText($("copied-line").textContent);
    put($("copy"), "copied");
  } catch {
    getSelection().selectAllChildren($("copied-line"));
    put($("copy"), "selected");
  }
  setTimeout(() => put($("copy"), "copy"), 2000);
}

const KEYS = {
  "+": () => requestAgents(facts.top_k + 1), "=": () => requestAgents(facts.top_k + 1), "-": () => requestAgents(facts.top_k - 1),
  p: () => applyTheme(theme + 1), c: copy, Escape: () => { alone = ""; draw(); },
};

async function main() {
  history.replaceState(null, "", "/");  // the key works once; a reload sends the cookie
  $("more").addEventListener("click", KEYS["+"]);
  $("fewer").addEventListener("click", KEYS["-"]);
  $("palette").addEventListener("click", KEYS.p);
  $("copy").addEventListener("click", copy);
  while (!appearance) {
    try {
      appearance = await (await request("/style")).json();
    } catch (error) {
      showError(error.message || "The connection to the viewer is lost. Trying again …");
      await pause(AGAIN_MS);
    }
  }
  initThemes();
  addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && facts) KEYS[event.key]?.();
  });
  addEventListener("resize", draw);
  // A hidden page sends no request: its old picture must not look live when it is shown again.
  document.addEventListener("visibilitychange", () => { if (document.hidden) showError("Looking for the viewer …"); });
  await watch();
}

main();
