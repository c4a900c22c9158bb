"use strict";
// Draws the band below the panels, as in the window: maps with all agents as dots, trails of shown
// agents and the visits of each cell; beside them the best and mean return.

const LEAST_CELLS = 6, MOST_CELL = 16, MAP_WIDE = 140;
let world = { places: [], course: [] }, worldTag = "", worldDrawn = "";

function drawWorld() {
  const room = $("maps").clientWidth, ratio = window.devicePixelRatio || 1;
  const wanted = `${worldTag} ${theme} ${room} ${ratio}`;
  if (worldDrawn === wanted) return;
  worldDrawn = wanted;
  const places = world.places.slice(0, Math.max(1, Math.floor(room / MAP_WIDE)));
  const maps = $("maps");
  while (maps.children.length > places.length) maps.lastElementChild.remove();
  while (maps.children.length < places.length) maps.append($("place").content.firstElementChild.cloneNode(true));
  places.forEach((place, index) => drawPlace(maps.children[index], place, ratio));
  drawCourse(world.course);
}

function drawPlace(figure, place, ratio) {
  put(figure.querySelector(".place"), place.name);
  put(figure.querySelector(".dots"), String(place.dots.length));
  const canvas = figure.querySelector("canvas");
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  const square = grid(canvas, place, ratio);
  const { shades, panel, accent } = appearance.themes[theme];
  for (const [x, y, share] of place.heat) square(x, y, mixed(panel, shades[2], 0.35 + 0.65 * share));
  for (const trail of place.trails) for (const [x, y] of trail) square(x, y, css(shades[1]), -1 / 3);
  for (const [x, y, shown] of [...place.dots].reverse()) {
    square(x, y, css(panel), 1 / 6);
    square(x, y, css(shown ? accent : shades[0]));
  }
}

// Returns a function that paints cells, as large as the map's known part allows; `larger` is a
// share of a cell.
function grid(canvas, place, ratio) {
  const cells = [...place.dots, ...place.heat, ...place.trails.flat()];
  const [left, across] = extent(cells.map(([x]) => x)), [top, down] = extent(cells.map(([, y]) => y));
  const size = Math.min(MOST_CELL * ratio, canvas.width / across, canvas.height / down);
  const [x0, y0] = [(canvas.width - across * size) / 2, (canvas.height - down * size) / 2];
  const context = canvas.getContext("2d");
  return (x, y, colour, larger = 0) => {
    const more = Math.trunc(larger * size) + (larger > 0 ? 1 : 0);
    const [x1, y1] = [Math.floor(x0 + (x - left) * size), Math.floor(y0 + (y - top) * size)];
    const [x2, y2] = [Math.floor(x0 + (x - left + 1) * size), Math.floor(y0 + (y - top + 1) * size)];
    context.fillStyle = colour;
    context.fillRect(x1 - more, y1 - more, Math.max(1, x2 - x1 + 2 * more), Math.max(1, y2 - y1 + 2 * more));
  };
}

function extent(values) {
  const first = Math.min(...values), known = Math.max(...values) - first + 1;
  const length = Math.max(LEAST_CELLS, known);
  return [first - Math.floor((length - known) / 2), length];
}

function mixed(cold, warm, share) {
  return css(warm.map((value, index) => Math.round(cold[index] + share * (value - cold[index]))));
}

function drawCourse(course) {
  $("course").hidden = course.length === 0;
  if (course.length === 0) return;
  const [best, mean] = course.at(-1);
  put($("best"), `best return ${best.toFixed(1)}`);
  put($("mean"), `mean ${mean.toFixed(1)}`);
  const low = Math.min(...course.flat()), high = Math.max(...course.flat());
  ["best", "mean"].forEach((name, which) =>
    curve($(`${name}-curve`), course.map((pair) => pair[which]), low, high));
}
