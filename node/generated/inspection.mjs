// Made by `make schemas` from the code of Python; change that, not this file.

export const MAX_MATCHED = 10000;
export const MAX_NUMBER = 400;
export const MAX_DATE = 64;
export const MAX_UNIQUE = 20000000;
export const TRUTHS = ["0", "1", "f", "false", "n", "no", "t", "true", "y", "yes"];
export const NOUN = {
  "text": "text",
  "integer": "an integer",
  "number": "a finite number",
  "boolean": "true or false",
  "date": "a date",
  "datetime": "a date with a time",
};
export const MESSAGES = {
  "required": "there is no value",
  "values": "the value is not one of those allowed",
  "pattern": "the value does not match the pattern, or is longer than 10,000 characters",
  "unique": "the value is there a second time",
};
export const EFFECT = {
  "freeze": 0,
  "discard-row": 1,
  "discard-value": 2,
  "evolve": 2,
};
export const CONSEQUENCE = {
  "freeze": "the source is held",
  "discard-row": "the row is held",
  "discard-value": "the value is blanked",
  "evolve": "noted only",
};
export const NOTES = ["$comment", "$id", "$schema", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"];
export const NUMBERS = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
export const SIZES = ["minLength", "maxLength", "minItems", "maxItems"];
export const KNOWN = ["additionalProperties", "const", "enum", "exclusiveMaximum", "exclusiveMinimum", "items", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "pattern", "properties", "required", "type"];
export const KINDS = [["an HTML page", "<!doctypehtml"], ["an HTML page", "<html"], ["an HTML page", "<head"], ["an HTML page", "<body"], ["an HTML page", "<script"], ["an HTML page", "<!--"], ["XML", "<?xml"], ["JSON", "{\""], ["JSON", "{}"], ["JSON", "[{"], ["JSON", "[\""], ["JSON", "[]"], ["JSON", "[["], ["a PDF", "%pdf"], ["a ZIP archive", "pk\u0003\u0004"], ["a gzip file", "\u001f\u008b"], ["Parquet", "par1"], ["SQLite", "sqliteformat3"], ["FlatGeobuf", "fgb"], ["GRIB", "grib"], ["NetCDF", "cdf"], ["HDF5", "\u0089hdf"], ["TIFF", "ii*\u0000"], ["TIFF", "ii+\u0000"], ["TIFF", "mm\u0000"], ["a picture", "\u0089png"], ["a picture", "\u00ff\u00d8\u00ff"], ["a picture", "gif8"]];
