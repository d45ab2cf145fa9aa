/**
 * STAC 1.0 and 1.1: what items, collections and catalogs must have, checked without asking anyone.
 *
 * Twin of src/kfm/validation/stac_rules.py, which says what that is. A break is [JSON pointer, rule, message].
 */

import { isDay } from "../dates.mjs";
import { bboxFlaw, featureFlaw, placeFlaw, positions } from "./inspect_geojson.mjs";

export const MAX_BREAKS = 20; // reported per record
export const NEAR = 0.01; // degrees that a geometry may lie outside of its bounding box: boxes are rounded

const VERSION = /^1\.[01]\.(?:0|[1-9][0-9]{0,3})(-[0-9A-Za-z.-]{1,20})?$/;
const MOMENT =
  /^([0-9]{4})-([0-9]{2})-([0-9]{2})T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(?:Z|\+00:00)$/;

/** What makes a record unreadable as any of the three: then it has no columns either. A list has only items. */
export function stacFlaw(record, { alone }) {
  if (!(record instanceof Map)) return ["stac.shape", "this is not an object"];
  if (record.get("type") === "Feature") return featureFlaw(record);
  if (!alone) return ["stac.shape", "this is not an item"];
  if (record.get("type") !== "Collection" && record.get("type") !== "Catalog") {
    return ["stac.shape", "this is neither an item nor a collection nor a catalog"];
  }
  return null;
}

/** What a record without a flaw lacks: at most twenty things. */
export function stacBreaks(record) {
  const found = [];
  for (const broken of breaks(record)) {
    found.push(broken);
    if (found.length === MAX_BREAKS) break;
  }
  return found;
}

const given = (record, name) => record.get(name) ?? null;
const isFilled = (value) => typeof value === "string" && value !== "";

function* breaks(record) {
  const version = record.get("stac_version");
  const known = typeof version === "string" ? VERSION.exec(version) : null;
  if (known === null) yield ["/stac_version", "stac.version", "the stac_version is no release of 1.0 or 1.1"];
  else if (known[1]) {
    const message = "the stac_version is a beta or release candidate of 1.0 or 1.1, and not the release";
    yield ["/stac_version", "stac.version", message];
  }
  yield* texts(record, "id");
  yield* links(record);
  const extensions = record.has("stac_extensions") ? record.get("stac_extensions") : [];
  if (!Array.isArray(extensions) || extensions.some((name) => typeof name !== "string")) {
    yield ["/stac_extensions", "stac.extensions", "the stac_extensions are not a list of texts"];
  }
  if (record.get("type") === "Feature") {
    yield* item(record);
    return;
  }
  yield* texts(record, "description");
  if (record.get("type") === "Collection") yield* collection(record);
}

function* texts(record, name) {
  if (!isFilled(record.get(name))) yield [`/${name}`, "stac.required", "it is not there, or is no text"];
}

function* links(record) {
  const list = record.get("links");
  if (!Array.isArray(list)) {
    yield ["/links", "stac.links", "there is no list of links"];
    return;
  }
  for (const [position, link] of list.entries()) {
    if (!(link instanceof Map) || !isFilled(link.get("href")) || !isFilled(link.get("rel"))) {
      yield [`/links/${position}`, "stac.links", "the link has no href, or no rel"];
    }
  }
}

function* item(record) {
  if (!(record.get("assets") instanceof Map)) yield ["/assets", "stac.assets", "there are no assets"];
  else yield* assets(record);
  yield* when(record.get("properties") ?? new Map());
  const flaw = placeFlaw(record);
  if (flaw !== null) yield ["", ...flaw];
  else yield* where(record);
  const list = Array.isArray(record.get("links")) ? record.get("links") : [];
  const led = list.some((link) => link instanceof Map && link.get("rel") === "collection");
  if (led && !isFilled(record.get("collection"))) {
    yield ["/collection", "stac.collection", "a link leads to the collection, but the item does not name it"];
  } else if (!led && given(record, "collection") !== null) {
    yield ["/collection", "stac.collection", "the item names a collection, but no link leads to it"];
  }
}

function* assets(record) {
  for (const asset of record.get("assets").values()) {
    if (!(asset instanceof Map) || !isFilled(asset.get("href"))) {
      yield ["/assets/*", "stac.assets", "an asset has no href"];
      return;
    }
  }
}

function* when(properties) {
  const at = (name) => `/properties/${name}`;
  const moments = {};
  for (const name of ["datetime", "start_datetime", "end_datetime"]) {
    moments[name] = momentOf(properties.get(name));
    if (moments[name] === null && given(properties, name) !== null) {
      yield [at(name), "stac.datetime", "it is no date and time in UTC (RFC 3339)"];
    }
  }
  const begins = given(properties, "start_datetime") !== null;
  const ends = given(properties, "end_datetime") !== null;
  if (!properties.has("datetime")) yield [at("datetime"), "stac.datetime", "there is no datetime, not even null"];
  if (begins !== ends || (given(properties, "datetime") === null && !begins)) {
    yield [at("start_datetime"), "stac.datetime", "start_datetime and end_datetime are not both there"];
  }
  const { start_datetime: start, end_datetime: stop } = moments;
  if (start !== null && stop !== null && start > stop) {
    yield [at("end_datetime"), "stac.datetime", "the end is before the start"];
  }
}

/** Texts in the order of time, of what is a moment in UTC; null of all else. */
export function momentOf(value) {
  const found = typeof value === "string" ? MOMENT.exec(value) : null;
  if (found === null || !isDay(Number(found[1]), Number(found[2]), Number(found[3]))) return null;
  return found[0].slice(0, 19) + (found[4] ?? ".").slice(1).padEnd(9, "0");
}

function* where(record) {
  const box = given(record, "bbox");
  const geometry = record.get("geometry");
  if (box === null) {
    if (geometry !== null) yield ["/bbox", "stac.bbox", "there is a geometry, but no bounding box"];
    return;
  }
  if (geometry === null) {
    yield ["/bbox", "stac.bbox", "there is a bounding box, but no geometry"];
    return;
  }
  const half = box.length / 2;
  const [west, south, east, north] = [box[0], box[1], box[half], box[half + 1]];
  if (south > north) {
    yield ["/bbox", "stac.bbox", "the bounding box has its south north of its north"];
    return;
  }
  const across = west <= east ? east : east + 360; // a box may cross the antimeridian
  for (const [longitude, latitude] of positions(geometry)) {
    const inside = [0, 360, -360].some((turn) => west - NEAR <= longitude + turn && longitude + turn <= across + NEAR);
    if (!inside || !(south - NEAR <= latitude && latitude <= north + NEAR)) {
      yield ["/bbox", "stac.bbox", `the geometry lies more than ${NEAR} degrees outside of the bounding box`];
      return;
    }
  }
}

function* collection(record) {
  yield* texts(record, "license");
  const extent = record.get("extent");
  if (!(extent instanceof Map)) yield ["/extent", "stac.extent", "there is no extent"];
  else yield* extentBreaks(extent);
  if (record.has("assets")) {
    if (!(record.get("assets") instanceof Map)) yield ["/assets", "stac.assets", "the assets are not an object"];
    else yield* assets(record);
  }
  const providers = record.has("providers") ? record.get("providers") : [];
  if (!Array.isArray(providers) || providers.some((one) => !(one instanceof Map) || !isFilled(one.get("name")))) {
    yield ["/providers", "stac.providers", "the providers are not a list, or one has no name"];
  }
}

function* extentBreaks(extent) {
  const boxes = listed(extent.get("spatial"), "bbox");
  if (!boxes.length) yield ["/extent/spatial/bbox", "stac.extent", "there is no list of bounding boxes"];
  for (const [position, box] of boxes.entries()) {
    if (box === null || bboxFlaw(new Map([["bbox", box]])) !== null) {
      const message = "the bounding box is not four or six numbers, or lies outside longitude ±180 or latitude ±90";
      yield [`/extent/spatial/bbox/${position}`, "stac.extent", message];
    }
  }
  const spans = listed(extent.get("temporal"), "interval");
  if (!spans.length) yield ["/extent/temporal/interval", "stac.extent", "there is no list of intervals"];
  for (const [position, span] of spans.entries()) {
    if (!Array.isArray(span) || span.length !== 2 || !inOrder(...span)) {
      const message = "the interval is not two instants in UTC in order, or null for an open end";
      yield [`/extent/temporal/interval/${position}`, "stac.extent", message];
    }
  }
}

function listed(owner, name) {
  const found = owner instanceof Map ? owner.get(name) : null;
  return Array.isArray(found) ? found : [];
}

function inOrder(start, stop) {
  const first = momentOf(start);
  const last = momentOf(stop);
  if ((first === null && start !== null) || (last === null && stop !== null)) return false;
  return first === null || last === null || first <= last;
}
