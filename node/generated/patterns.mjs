// Made by `make schemas` from the code of Python; change that, not this file.

export const TOKEN = "\\[(\\^|(?!\\^))((?:\\\\(?:[dwsDWStnrfva]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[^0-9A-Za-z])|\\\\b|[^\\\\])(?:\\\\(?:[dwsDWStnrfva]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[^0-9A-Za-z])|\\\\b|[^\\\\\\]])*)\\]|\\((\\?:|\\?P<[A-Za-z_][A-Za-z0-9_]*>|\\?[is]{1,2}:|(?!\\?))|([*+?]|\\{[0-9]+,?[0-9]*\\}|\\{,[0-9]*\\})(\\??)|(\\\\[AZbB]|[\\^$|)])|(\\\\(?:[dwsDWStnrfva]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[^0-9A-Za-z])|[^\\\\(\\[])";
export const MEMBER = "(\\\\(?:[dwsDWStnrfva]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[^0-9A-Za-z])|\\\\b|[^\\\\])(?:-(\\\\(?:[dwsDWStnrfva]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[^0-9A-Za-z])|\\\\b|[^\\\\]))?";
export const FLAWS = [["\\(\\?<?[=!]", "a look-around, which is not supported,", "write out what may stand there"], ["\\(\\?>", "an atomic group, which is not supported,", "write (?: ) if that takes what you mean"], ["\\(\\?", "a group of a kind that is not supported", ""], ["\\[", "a class that is not closed, or has an escape that is not known,", ""], ["\\\\[1-9]", "a back-reference, which is not supported,", "write out what may come again"], ["\\\\(?![\\s\\S])", "a backslash before nothing", ""], ["", "an escape that is not known", ""]];
export const KINDS = {
  "d": "\\d",
  "w": "\\w",
  "s": "[:space:]",
  "D": "\\D",
  "W": "\\W",
  "S": "[:^space:]",
};
export const LETTERS = {
  "t": 9,
  "n": 10,
  "v": 11,
  "f": 12,
  "r": 13,
  "a": 7,
  "b": 8,
};
export const PLACES = {
  "\\A": "^",
  "\\Z": "$",
};
export const MAX_PATTERN = 10000;
export const MAX_NESTED = 50;
export const MAX_REPEAT = 1000;
export const MAX_SIZE = 10000;
