/** Bytes as text, five characters for four of them: the alphabet and padding of Python's base64.b85encode. */

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
const VALUES = new Map([...ALPHABET].map((character, value) => [character, value]));

export function b85encode(body) {
  const padding = (4 - (body.length % 4)) % 4;
  const padded = padding ? Buffer.concat([body, Buffer.alloc(padding)]) : body;
  const parts = [];
  for (let at = 0; at < padded.length; at += 4) {
    let word = padded.readUInt32BE(at);
    let five = "";
    for (let n = 0; n < 5; n += 1) {
      five = ALPHABET[word % 85] + five;
      word = Math.floor(word / 85);
    }
    parts.push(five);
  }
  const text = parts.join("");
  return padding ? text.slice(0, -padding) : text;
}

export function b85decode(text) {
  const padding = (5 - (text.length % 5)) % 5;
  const padded = text + "~".repeat(padding);
  const body = Buffer.alloc((padded.length / 5) * 4);
  for (let at = 0; at < padded.length; at += 5) {
    let word = 0;
    for (let n = 0; n < 5; n += 1) {
      const value = VALUES.get(padded[at + n]);
      if (value === undefined) throw new RangeError("no base85 text");
      word = word * 85 + value;
    }
    if (word > 0xffffffff) throw new RangeError("no base85 text");
    body.writeUInt32BE(word, (at / 5) * 4);
  }
  return padding ? body.subarray(0, -padding) : body;
}
