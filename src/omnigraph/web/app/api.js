// Asks the server whose page this is, and nobody else. The token lives in this module alone: typed
// once per tab, kept for the tab only if somebody says so, never in an address or a cookie.

import { tableFromIPC } from '../vendor/arrow.js';

const HOME = new URL('..', document.baseURI);
const KEPT = 'omnigraph.token';
const ARROW = 'application/vnd.apache.arrow.stream';

/** What the server says no to. */
export class ApiError extends Error {
  constructor(status, body, requestId) {
    super(body.error ?? `the server answered ${status}`);
    this.status = status;
    this.kind = body.kind ?? null;
    this.hint = body.hint ?? null;
    this.diagnostics = body.diagnostics ?? [];
    this.violations = body.violations ?? [];
    this.conflicts = body.merge_conflicts ?? [];
    this.requestId = requestId;
  }
}

export class Api {
  #token = sessionStorage.getItem(KEPT);
  #askToken;
  #asking = null;

  /** `askToken(reason)` resolves to {token, keep}, or to null if nobody wants to say. */
  constructor(askToken) {
    this.#askToken = askToken;
  }

  get hasToken() {
    return this.#token !== null;
  }

  forget() {
    this.#token = null;
    sessionStorage.removeItem(KEPT);
  }

  get(path, query, how) {
    return this.#json('GET', path, { query, ...how });
  }

  post(path, body, how) {
    return this.#json('POST', path, { body, ...how });
  }

  delete(path, how) {
    return this.#json('DELETE', path, how);
  }

  /** Send a file as it is; the browser reads it from the disk while it is sent. */
  send(path, query, content, type) {
    return this.#json('POST', path, { query, content, type });
  }

  /** Ask for rows as columns: an Arrow stream, or JSON where a route has nothing else. */
  async rows(path, body, how) {
    const answer = await this.#ask('POST', path, { body, accept: `${ARROW}, application/json;q=0.5`, ...how });
    const isArrow = answer.headers.get('content-type')?.startsWith(ARROW);
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const table = isArrow ? tableFromIPC(bytes, { useBigInt: true }) : tableOf(bytes);
    return { table, bytes: bytes.length, ms: serverTime(answer) };
  }

  /** Ask for bytes or lines that are to be saved. */
  async blob(method, path, how) {
    return (await this.#ask(method, path, how)).blob();
  }

  async #json(method, path, how) {
    return (await this.#ask(method, path, how)).json();
  }

  async #ask(method, path, how = {}) {
    const answer = await this.#fetch(method, path, how);
    if (answer.ok) return answer;
    if (answer.status === 401 && (await this.#entered())) return this.#ask(method, path, how);
    throw await refusal(answer);
  }

  #fetch(method, path, { query, body, content, type, accept, signal, headers: more }) {
    const url = new URL(path.replace(/^\//, ''), HOME);
    for (const [name, value] of Object.entries(query ?? {}))
      for (const one of [value].flat()) if (one || one === 0) url.searchParams.append(name, one);
    const headers = { accept: accept ?? 'application/json', ...more };
    if (this.#token !== null) headers.authorization = `Bearer ${this.#token}`;
    if (body !== undefined) headers['content-type'] = 'application/json';
    if (content !== undefined) headers['content-type'] = type;
    return fetch(url, {
      method,
      headers,
      body: content ?? (body === undefined ? undefined : JSON.stringify(body)),
      signal,
      credentials: 'omit',
      redirect: 'error',
      cache: 'no-store',
      referrerPolicy: 'no-referrer',
    });
  }

  // One dialog, however many requests were refused at once.
  async #entered() {
    this.#asking ??= this.#askToken(this.#token !== null).finally(() => (this.#asking = null));
    const given = await this.#asking;
    if (given === null) return false;
    this.#token = given.token;
    if (given.keep) sessionStorage.setItem(KEPT, given.token);
    else sessionStorage.removeItem(KEPT);
    return true;
  }
}

function tableOf(bytes) {
  const { columns, rows } = JSON.parse(new TextDecoder().decode(bytes));
  const names = columns ?? Object.keys(rows[0] ?? {});
  return {
    numRows: rows.length,
    schema: { fields: names.map((name) => ({ name, type: null })) },
    getChildAt: (at) => ({ at: (row) => rows[row][names[at]] ?? null }),
  };
}

async function refusal(answer) {
  let body = {};
  try {
    body = await answer.json();
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error; // a proxy may answer in other words
  }
  return new ApiError(answer.status, body, answer.headers.get('x-request-id'));
}

function serverTime(answer) {
  const found = /app;dur=([\d.]+)/.exec(answer.headers.get('server-timing') ?? '');
  return found ? Number(found[1]) : null;
}
