/**
 * The shape of a GeoJSON feature (RFC 7946): members, geometry, coordinates in longitude and latitude.
 *
 * Twin of src/kfm/validation/geojson.py. Objects are Maps, as `decode` gives them in the order of the text.
 * A flaw is [rule, message], or null where there is none.
 */

export const MAX_NESTED = 8; // geometry collections inside one another

const SHAPE = "geojson.shape";
const GEOMETRY = "geojson.geometry";
const RANGE = "geojson.range";
/** How deep the positions of a type lie. */
const DEPTH = new Map([
  ["Point", 0], ["MultiPoint", 1], ["LineString", 1], ["MultiLineString", 2], ["Polygon", 2], ["MultiPolygon", 3],
]);

/** Whether the document around the features is a feature collection. */
export function collectionFlaw(document) {
  if (document.get("type") !== "FeatureCollection") return [SHAPE, "the document is not a FeatureCollection"];
  return bboxFlaw(document);
}

/** What makes a feature unreadable as one: then it has no columns either. */
export function featureFlaw(feature) {
  if (!(feature instanceof Map) || feature.get("type") !== "Feature") return [SHAPE, "this is not a Feature"];
  if (!feature.has("geometry") || !feature.has("properties")) {
    return [SHAPE, "the Feature lacks its geometry or its properties"];
  }
  const properties = feature.get("properties");
  if (properties !== null && !(properties instanceof Map)) return [SHAPE, "the properties are not an object"];
  if (feature.has("id") && typeof feature.get("id") !== "string" && typeof feature.get("id") !== "number") {
    return [SHAPE, "the id is neither text nor a number"];
  }
  return null;
}

/** What is wrong with where a well-formed feature lies. */
export function placeFlaw(feature) {
  const geometry = feature.get("geometry");
  const flaw = geometry === null ? null : geometryFlaw(geometry, MAX_NESTED);
  return flaw ?? bboxFlaw(feature);
}

function geometryFlaw(geometry, room) {
  if (!(geometry instanceof Map)) return [GEOMETRY, "the geometry is not an object"];
  const kind = geometry.get("type");
  if (kind === "GeometryCollection") {
    const parts = geometry.get("geometries");
    if (!Array.isArray(parts) || !room) {
      return [GEOMETRY, `the collection has no list of geometries, or is nested deeper than ${MAX_NESTED}`];
    }
    for (const part of parts) {
      const flaw = geometryFlaw(part, room - 1);
      if (flaw !== null) return flaw;
    }
    return bboxFlaw(geometry);
  }
  if (!DEPTH.has(kind)) return [GEOMETRY, "the geometry has no type that GeoJSON knows"];
  if (!Array.isArray(geometry.get("coordinates"))) return [GEOMETRY, "the geometry has no coordinates"];
  return coordinatesFlaw(geometry.get("coordinates"), kind) ?? bboxFlaw(geometry);
}

function coordinatesFlaw(coordinates, kind) {
  const depth = DEPTH.get(kind);
  if (depth === 0) return positionsFlaw([coordinates]);
  let lines = [coordinates];
  for (let level = 1; level < depth && lines.every(Array.isArray); level += 1) lines = lines.flat(1);
  for (const line of lines) {
    if (!Array.isArray(line)) return [GEOMETRY, "the coordinates are not nested as the type asks"];
    const flaw = positionsFlaw(line);
    if (flaw !== null) return flaw;
    if (kind.includes("Polygon") && (line.length < 4 || !samePosition(line[0], line.at(-1)))) {
      return [GEOMETRY, "a ring has fewer than four positions, or is not closed"];
    }
    if (kind.includes("Line") && line.length < 2) return [GEOMETRY, "a line has fewer than two positions"];
  }
  return null;
}

const samePosition = (one, other) => one.length === other.length && one.every((number, at) => number === other[at]);

const isNumber = (value) => typeof value === "number";

function positionsFlaw(positions) {
  if (positions.some((position) => !Array.isArray(position) || position.length < 2)) {
    return [GEOMETRY, "a position is not a list of two or more numbers"];
  }
  if (!positions.every((position) => position.every(isNumber))) return [GEOMETRY, "a coordinate is not a number"];
  for (const [longitude, latitude] of positions) {
    if (longitude < -180 || longitude > 180 || latitude < -90 || latitude > 90) {
      return [RANGE, "a position lies outside longitude ±180 or latitude ±90"];
    }
  }
  return null;
}

/** Longitude and latitude of every position of a geometry without a flaw. */
export function* positions(geometry) {
  if (geometry.get("type") === "GeometryCollection") {
    for (const part of geometry.get("geometries")) yield* positions(part);
    return;
  }
  let found = [geometry.get("coordinates")];
  for (let level = 0; level < DEPTH.get(geometry.get("type")); level += 1) found = found.flat(1);
  yield* found;
}

export function bboxFlaw(owner) {
  const box = owner.get("bbox") ?? null;
  if (box === null) return null;
  if (!Array.isArray(box) || (box.length !== 4 && box.length !== 6) || !box.every(isNumber)) {
    return [SHAPE, "the bounding box is not four or six numbers"];
  }
  const half = box.length / 2;
  return positionsFlaw([box.slice(0, half), box.slice(half)]);
}
