// The words of the query language that are coloured. Colours may be wrong, diagnostics never: those
// are the server's. A test holds this list against the shell's.

export const KEYWORDS = [
  'match',
  'return',
  'order',
  'limit',
  'offset',
  'distinct',
  'not',
  'and',
  'in',
  'contains',
  'starts_with',
  'is',
  'null',
  'desc',
  'asc',
  'as',
  'query',
  'insert',
  'update',
  'delete',
  'set',
  'where',
  'true',
  'false',
];

export const FUNCTIONS = [
  'search',
  'match_text',
  'fuzzy',
  'nearest',
  'bm25',
  'rrf',
  'count',
  'sum',
  'avg',
  'min',
  'max',
  'now',
];

const KEYWORD = new Set(KEYWORDS);
const FUNCTION = new Set(FUNCTIONS);

/** Read one token of a line; `stream` is CodeMirror's, or anything with its `match`. */
export function token(stream, state) {
  if (state.comment) {
    state.comment = !stream.match(/^.*?\*\//);
    if (state.comment) stream.skipToEnd();
    return 'comment';
  }
  if (stream.eatSpace()) return null;
  if (stream.match(/^\/\/.*/)) return 'comment';
  if (stream.match('/*')) {
    state.comment = true;
    return 'comment';
  }
  if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return 'string';
  if (stream.match(/^\$\w+/)) return 'variableName';
  if (stream.match(/^@\w+/)) return 'meta';
  if (stream.match(/^\d[\w.]*/)) return 'number';
  const word = stream.match(/^[A-Za-z_]\w*/);
  if (!word) {
    stream.next();
    return null;
  }
  if (KEYWORD.has(word[0])) return 'keyword';
  if (FUNCTION.has(word[0]) && stream.match(/^\s*\(/, false)) return 'function';
  return /^[A-Z]/.test(word[0]) ? 'typeName' : null;
}
