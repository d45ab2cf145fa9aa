/**
 * What an output says of itself: where it lies, when, and under which STAC id. Twin of
 * src/kfm/validation/output_description.py: what is read from the bytes of a GeoJSON or STAC document.
 */

import { decode } from "../canonical.mjs";
import { isPrintable, length } from "../characters.mjs";
import { BadInput } from "../errors.mjs";
import { collectionFlaw, featureFlaw, placeFlaw, positions } from "./inspect_geojson.mjs";
import { momentOf } from "./inspect_stac.mjs";

const OPEN = ".."; // an interval without a beginning, or without an end

function isDatetime(text) {
  if (typeof text !== "string") return false;
  const slash = text.indexOf("/");
  if (slash < 0) return momentOf(text) !== null;
  const [start, end] = [text.slice(0, slash), text.slice(slash + 1)];
  const [first, last] = [momentOf(start), momentOf(end)];
  if ((first === null && start !== OPEN) || (last === null && end !== OPEN)) return false;
  return first !== null && last !== null ? first <= last : start !== end;
}

export function readFrom(body) {
  let document;
  try {
    document = decode(body, "the output", { maps: true });
  } catch (problem) {
    if (problem instanceof BadInput) return {};
    throw problem;
  }
  if (!(document instanceof Map)) return {};
  const alone = document.get("type") === "Feature";
  const features = alone ? [document] : document.get("features");
  if (!alone && collectionFlaw(document) !== null) return {};
  if (!Array.isArray(features) || features.some((one) => featureFlaw(one) ?? placeFlaw(one))) return {};
  const said = {};
  const box = document.get("bbox") ?? around(features);
  if (box !== null && isUpright(box)) said.bbox = box;
  if (alone && typeof document.get("stac_version") === "string") Object.assign(said, ofItem(document));
  return said;
}

function ofItem(item) {
  const said = {};
  const properties = item.get("properties") ?? new Map();
  const interval = `${properties.get("start_datetime")}/${properties.get("end_datetime")}`;
  const when = [interval, properties.get("datetime")].find(isDatetime);
  if (when !== undefined) said.datetime = when;
  const id = item.get("id");
  if (typeof id === "string" && id && length(id) <= 200 && isPrintable(id)) said.stac_id = id;
  return said;
}

function around(features) {
  let box = null;
  for (const one of features) {
    if (one.get("geometry") === null) continue;
    for (const [x, y] of positions(one.get("geometry"))) {
      box ??= [x, y, x, y];
      box = [Math.min(box[0], x), Math.min(box[1], y), Math.max(box[2], x), Math.max(box[3], y)];
    }
  }
  return box;
}

function isUpright(box) {
  const half = box.length / 2;
  return box.slice(1, half).every((low, at) => low <= box[half + 1 + at]);
}
