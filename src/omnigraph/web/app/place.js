// Where somebody is stands in the fragment of the address: a link is a bookmark, a screen, a query
// with its parameters, on a branch, at a commit. Fragments are never sent to a server.

const SHARED = ['branch', 'at'];

/** Read an address like `#query?branch=main&q=…`. */
export function placeOf(hash) {
  const [screen, words = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const said = Object.fromEntries(new URLSearchParams(words));
  return { screen: screen || 'query', said };
}

/** Write one; what is empty is left out. */
export function hashOf(screen, said) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(said)) if (value) words.set(name, value);
  const text = words.toString();
  return text ? `#${screen}?${text}` : `#${screen}`;
}

/** What the next screen takes along from this one. */
export function carried(said) {
  return Object.fromEntries(SHARED.filter((name) => said[name]).map((name) => [name, said[name]]));
}
