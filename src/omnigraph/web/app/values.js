// Values as people read them, and as files have them.

const DATE = 8; // Arrow's type ids
const TIMESTAMP = 10;
const BINARY = new Set([4, 19, 15]);
const NUMBERS = new Set([2, 3, 7]);
const SHOWN = 8;

export const isNumber = (type) => NUMBERS.has(type?.typeId);

/** A cell of a column: text, or null where there is no value. */
export function shown(value, type) {
  if (value === null || value === undefined) return null;
  if (type?.typeId === DATE || type?.typeId === TIMESTAMP) return moment(value, type);
  if (typeof value === 'bigint') return value.toString();
  if (BINARY.has(type?.typeId)) return `${value.length} bytes`;
  if (ArrayBuffer.isView(value) || Array.isArray(value)) return list([...value], type);
  if (typeof value === 'object') return JSON.stringify(value, plain);
  return String(value);
}

// Days have no time; what Arrow calls a date of milliseconds has one.
function moment(value, type) {
  const at = value instanceof Date ? value : new Date(Number(value));
  if (Number.isNaN(at.getTime())) return String(value);
  const text = at.toISOString();
  return type.typeId === DATE && type.unit === 0 ? text.slice(0, 10) : text.replace('.000Z', 'Z');
}

function list(items, type) {
  const kind = type?.children?.[0]?.type;
  if (isNumber(kind) && items.length > SHOWN) {
    const some = items.slice(0, 4).map((one) => Number(one).toFixed(3));
    return `[${some.join(', ')}, … ${items.length} numbers]`;
  }
  return `[${items.map((one) => shown(one, kind) ?? 'null').join(', ')}]`;
}

export function plain(_, value) {
  if (typeof value === 'bigint') return value.toString();
  return ArrayBuffer.isView(value) ? [...value] : value;
}

/** A JSON value as text; long vectors are cut. */
export function told(value) {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string') return value;
  if (Array.isArray(value) && value.length > 2 * SHOWN && value.every((one) => typeof one === 'number'))
    return `[${value
      .slice(0, 4)
      .map((one) => one.toFixed(3))
      .join(', ')}, … ${value.length} numbers]`;
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

export const count = (number, one, many = `${one}s`) => `${number.toLocaleString('en')} ${number === 1 ? one : many}`;

export function size(bytes) {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let at = 0;
  for (; bytes >= 1000 && at < units.length - 1; at++) bytes /= 1000;
  return `${at ? bytes.toFixed(1) : bytes} ${units[at]}`;
}

export const shortId = (id) => id.slice(-8);

/** How long ago a moment in microseconds was. */
export function ago(microseconds, now = Date.now()) {
  const seconds = Math.max(0, now - microseconds / 1000) / 1000;
  if (seconds < 60) return 'just now';
  const steps = [
    ['min', 60, 60],
    ['h', 3600, 24],
    ['d', 86400, 60],
    ['months', 2592000, 24],
  ];
  for (const [word, length, most] of steps)
    if (seconds / length < most) return `${Math.floor(seconds / length)} ${word} ago`;
  return new Date(microseconds / 1000).toISOString().slice(0, 10);
}

/** A cell of a CSV file. Spreadsheets run what begins like a formula, so such text is quoted. */
export function csvCell(text, isText = true) {
  if (text === null) return '';
  const safe = isText && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Only addresses of the web become links. */
export const isLink = (text) => /^https?:\/\/\S+$/.test(text);

const UTF8 = new TextEncoder();

/** Return what turns places counted in UTF-8 bytes into places in a text. */
export function byteIndex(text) {
  if (/^[\x00-\x7f]*$/.test(text)) return (at) => Math.min(at, text.length);
  const starts = [];
  let bytes = 0;
  for (let at = 0; at < text.length;) {
    const char = String.fromCodePoint(text.codePointAt(at));
    const width = UTF8.encode(char).length;
    for (let one = 0; one < width; one++) starts[bytes + one] = at;
    bytes += width;
    at += char.length;
  }
  return (at) => starts[at] ?? text.length;
}
