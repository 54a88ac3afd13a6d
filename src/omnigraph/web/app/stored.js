// Queries the server keeps. A server that keeps none has no such route, and the page no such list.

import { ApiError } from './api.js';
import { h } from './dom.js';

const SCALARS = {
  string: 'String',
  bool: 'Bool',
  int: 'I32',
  bigint: 'I64',
  float: 'F64',
  date: 'Date',
  datetime: 'DateTime',
  vector: 'Vector',
  blob: 'Blob',
};

/** Return the list of stored queries as a part of the page, or null if there is none. */
export async function storedQueries(app, open) {
  if (!app.may('invoke_query')) return null;
  let found;
  try {
    found = await app.api.get('/queries');
  } catch (error) {
    if (error instanceof ApiError && [403, 404, 405].includes(error.status)) return null;
    throw error;
  }
  if (!found.queries?.length) return null;
  const entries = found.queries.map((one) => {
    const note = one.mutation
      ? h('span', { class: 'tag warn' }, 'writes')
      : h('span', { class: 'number' }, one.params?.length || '');
    return h(
      'li',
      {},
      h(
        'button',
        { class: 'item', title: one.description ?? one.name, onclick: () => open(opened(app, one)) },
        h('span', { class: 'name' }, one.name),
        note,
      ),
    );
  });
  return [h('h2', {}, 'Stored queries'), h('ul', {}, entries)];
}

function opened(app, one) {
  const path = `/queries/${encodeURIComponent(one.name)}`;
  return {
    name: one.name,
    description: one.description,
    kind: one.mutation ? 'mutation' : 'read',
    text: one.query_source ?? one.source ?? null,
    params: (one.params ?? []).map(paramOf),
    rows: (params, state, signal) => app.api.rows(path, { params, ...state }, { signal }),
    json: (params, state, signal) => app.api.post(path, { params, ...state }, { signal }),
    write: (params, branch, headers) => app.api.post(path, { params, branch }, { headers }),
  };
}

function paramOf(one) {
  const isList = one.kind === 'list';
  const scalar = SCALARS[isList ? one.item_kind : one.kind] ?? 'String';
  const core = isList ? `[${scalar}]` : scalar;
  return {
    name: one.name,
    type: one.nullable ? `${core}?` : core,
    scalar,
    nullable: one.nullable ?? false,
    is_list: isList,
    values: one.values ?? [],
  };
}
