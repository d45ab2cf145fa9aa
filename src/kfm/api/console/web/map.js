// Draws the map of a dataset in place of its picture. Without WebGL, or when anything fails, the picture stays.
const figure = document.getElementById("live-map");
const dark = matchMedia("(prefers-color-scheme: dark)");
const KEYS = "Arrow keys move the map, + and − zoom.";
const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30];
const TILES = { points: "points", lines: "lines", areas: "areas", cells: "cells" };

function hasWebGl() {
  const found = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: false });
  found?.getExtension("WEBGL_lose_context")?.loseContext();
  return found !== null;
}

// The library is no module: it puts its name among the globals.
function loaded(address) {
  return new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = address;
    script.onload = done;
    script.onerror = () => failed(new Error("a file of the map did not load"));
    document.head.append(script);
  });
}

function styled(address) {
  return new Promise((done, failed) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = address;
    link.onload = done;
    link.onerror = () => failed(new Error("the style of the map did not load"));
    document.head.append(link);
  });
}

async function fetched(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error("a part of the map did not load");
  return answer;
}

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const collection = (features) => ({ type: "FeatureCollection", features });
const feature = (type, coordinates) => ({ type: "Feature", properties: {}, geometry: { type, coordinates } });

function graticule(map) {
  const box = map.getBounds();
  const wide = Math.max(box.getEast() - box.getWest(), box.getNorth() - box.getSouth());
  const step = STEPS.find((one) => wide / one <= 9) ?? STEPS.at(-1);
  const [west, east] = [box.getWest() - step, box.getEast() + step];
  const [south, north] = [Math.max(box.getSouth() - step, -85), Math.min(box.getNorth() + step, 85)];
  const lines = [];
  for (let at = Math.ceil(west / step); at * step <= east; at += 1) lines.push([[at * step, south], [at * step, north]]);
  for (let at = Math.ceil(south / step); at * step <= north; at += 1) lines.push([[west, at * step], [east, at * step]]);
  return collection(lines.map((line) => feature("LineString", line)));
}

function layersOf(source, name, kind) {
  const own = { source, "source-layer": name };
  const dot = color("dot");
  const found = [];
  if (kind === "areas" || kind === "cells") {
    found.push({ id: `${name}-fill`, type: "fill", ...own, filter: ["==", ["geometry-type"], "Polygon"],
      paint: { "fill-color": dot, "fill-opacity": kind === "cells" ? 0.38 : 0.2, "fill-antialias": false } });
  }
  if (kind !== "points") {
    found.push({ id: `${name}-line`, type: "line", ...own, filter: ["!=", ["geometry-type"], "Point"],
      layout: { "line-join": "round" }, paint: { "line-color": dot, "line-width": kind === "lines" ? 1.6 : 1 } });
  }
  if (kind === "points" || kind === "any") {
    const count = ["coalesce", ["get", "n"], 1];
    found.push({ id: `${name}-dot`, type: "circle", ...own, filter: ["==", ["geometry-type"], "Point"],
      paint: { "circle-color": dot, "circle-opacity": 0.72,
        "circle-radius": ["interpolate", ["linear"], ["log10", count], 0, 3.5, 1, 5, 4, 10] } });
  }
  if (kind === "any") found.unshift(...layersOf(source, name, "areas").slice(0, 1));
  return found;
}

function styleOf(said, source, layers) {
  const outline = said.outline.map((line) => feature("Polygon", [[...line, line[0]]]));
  return {
    version: 8,
    sources: {
      land: { type: "geojson", data: collection(outline) },
      degrees: { type: "geojson", data: collection([]) },
      data: source,
    },
    layers: [
      { id: "paper", type: "background", paint: { "background-color": color("wash") } },
      { id: "land", type: "fill", source: "land", paint: { "fill-color": color("land") } },
      { id: "shore", type: "line", source: "land", paint: { "line-color": color("shore"), "line-width": 1.2 } },
      { id: "degrees", type: "line", source: "degrees", paint: { "line-color": color("line"), "line-width": 1 } },
      ...layers.flatMap(([name, kind]) => layersOf("data", name, kind)),
    ],
  };
}

// MapLibre takes a tile that is absent for an empty one. Here it means that the dataset may not be shown any more.
async function tileAt(address, signal, gone) {
  const answer = await fetch(address, { signal });
  if (answer.status === 404) gone();
  if (!answer.ok) throw new Error("a tile did not load");
  return { data: await answer.arrayBuffer() };
}

async function leave() {
  const page = await fetch(location.href, { method: "HEAD", cache: "no-store" });
  if (page.status === 404) location.reload(); // the picture may not be shown any more, either
}

// The source of the data, its layers with their kinds, and its bounds: of our own tiles, or of a file of tiles.
async function dataOf(said, library, gone) {
  if (said.source === "tiles") {
    library.addProtocol("kfm", (asked, { signal }) => tileAt(asked.url.slice("kfm://".length), signal, gone));
    const kinds = said.is_masked ? [["cells", "cells"], ["points", "points"]] : ["areas", "cells", "lines", "points"].map((name) => [name, name]);
    const inside = said.bounds[0] >= -180 && said.bounds[2] <= 180 ? { bounds: said.bounds } : {};
    const tiles = [`kfm://${location.origin}${said.tiles}`];
    return { source: { type: "vector", tiles, minzoom: said.min_zoom, maxzoom: said.max_zoom, ...inside }, layers: kinds, bounds: said.bounds };
  }
  await loaded(figure.dataset.reader);
  const { PMTiles, Protocol } = globalThis.pmtiles;
  const address = new URL(said.tiles, location.href).href;
  const file = new PMTiles(address);
  const protocol = new Protocol();
  protocol.add(file);
  library.addProtocol("pmtiles", protocol.tile);
  const head = await file.getHeader();
  if (head.tileType !== 1) throw new Error("the file has no vector tiles");
  const names = ((await file.getMetadata()).vector_layers ?? []).map((layer) => layer.id);
  return {
    source: { type: "vector", url: `pmtiles://${address}` },
    layers: names.map((name) => [name, "any"]),
    bounds: [head.minLon, head.minLat, head.maxLon, head.maxLat],
  };
}

function limits(map, layers) {
  return layers.some(([name]) => map.querySourceFeatures("data", { sourceLayer: name }).some((one) => one.properties.limited));
}

function wordsOf(said, isLimited) {
  const words = [KEYS];
  if (isLimited) words.push("Here are more places than the map draws at this zoom: dots stand for several, and small shapes are left out. Zoom in to see more.");
  if (said.is_boxed) words.push("Some shapes have too many corners and are drawn as boxes.");
  if (said.beyond > 0) words.push(`Not drawn, because they are too near to a pole: ${said.beyond}.`);
  return words.join(" ");
}

async function show() {
  const said = await (await fetched(figure.dataset.map)).json();
  if (said.source === "none") throw new Error("there is nothing to draw");
  const { library: script, style, worker } = figure.dataset;
  await Promise.all([loaded(script), styled(style), fetched(worker)]); // a worker that is not there fails in silence
  const library = globalThis.maplibregl;
  library.setWorkerUrl(new URL(figure.dataset.worker, location.href).href);
  const { source, layers, bounds } = await dataOf(said, library, () => leave().catch(() => {}));
  const picture = figure.querySelector("svg.map");
  const place = document.createElement("div");
  place.className = "live";
  picture.before(place);
  picture.hidden = true;
  picture.style.display = "none";
  const back = (why) => {
    place.remove();
    words?.remove();
    picture.style.display = "";
    figure.dataset.state = why;
  };
  let words;
  let map;
  try {
    map = new library.Map({
      container: place,
      style: styleOf(said, source, layers),
      bounds: [bounds.slice(0, 2), bounds.slice(2)],
      fitBoundsOptions: { padding: 32, maxZoom: 13 },
      maxZoom: 17,
      attributionControl: false,
      cooperativeGestures: true,
      dragRotate: false,
      pitchWithRotate: false,
      touchPitch: false,
      rollEnabled: false,
      locale: { "Map.Title": picture.getAttribute("aria-label") },
    });
  } catch {
    back("picture");
    return;
  }
  map.keyboard.disableRotation();
  map.touchZoomRotate.disableRotation();
  map.addControl(new library.NavigationControl({ showCompass: false }), "top-right");
  map.addControl(new library.ScaleControl({ maxWidth: 120 }), "bottom-right");
  words = document.createElement("div");
  words.className = "map-words";
  const line = document.createElement("p");
  const toggle = document.createElement("button");
  line.setAttribute("aria-live", "polite");
  line.textContent = wordsOf(said, false);
  toggle.type = "button";
  toggle.textContent = "Show the picture";
  toggle.addEventListener("click", () => {
    const isMap = place.style.display !== "none";
    place.style.display = isMap ? "none" : "";
    picture.style.display = isMap ? "" : "none";
    toggle.textContent = isMap ? "Show the map" : "Show the picture";
    line.hidden = isMap;
    if (!isMap) map.resize();
  });
  words.append(line, toggle);
  place.after(words);
  const redraw = () => map.getSource("degrees")?.setData(graticule(map));
  map.on("moveend", redraw);
  map.on("idle", () => {
    const text = wordsOf(said, limits(map, layers));
    if (line.textContent !== text) line.textContent = text;
    figure.dataset.state = "map";
  });
  map.on("webglcontextlost", () => back("picture"));
  map.on("error", () => {
    if (figure.dataset.state === "map") return; // what is drawn stays
    map.remove();
    back("picture");
  });
  map.on("load", redraw);
  dark.addEventListener("change", () => {
    map.setStyle(styleOf(said, source, layers), { diff: false });
    map.once("styledata", redraw);
  });
  figure.map = map;
}

if (figure !== null && hasWebGl()) {
  const seen = new IntersectionObserver((found) => {
    if (!found.some((one) => one.isIntersecting)) return;
    seen.disconnect();
    show().catch(() => {
      figure.dataset.state = "picture";
    });
  }, { rootMargin: "200px" });
  seen.observe(figure);
} else if (figure !== null) {
  figure.dataset.state = "picture";
}
