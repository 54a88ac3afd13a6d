// A write takes two steps: it is shown with the branch it goes to before it happens, and the first
// offer is a new branch, from where it can be reviewed.

import { ask, field, problem } from './dialogs.js';
import { h } from './dom.js';
import { count, shortId } from './values.js';

/** Ask where a write goes, do it, and present what came of it. */
export async function offerWrite(app, query, body, stored, present) {
  const { snapshot, branch: _, ...asked } = body;
  if (snapshot) throw new Error('the past cannot be written to: choose the head of a branch');
  const where = await chosenBranch(app, query, asked);
  if (where === null) return;
  try {
    if (where.isNew) await app.api.post('/branches', { name: where.branch, from: app.branch });
    const headers = { 'idempotency-key': crypto.randomUUID() };
    const done = stored
      ? await stored.write(asked.params, where.branch, headers)
      : await app.api.post('/mutate', { ...asked, branch: where.branch, message: where.message || null }, { headers });
    present([outcome(app, done, where)]);
    await app.refresh();
  } catch (error) {
    present([
      problem(error),
      where.isNew &&
        h('p', { class: 'dim page' }, `The branch ${where.branch} may have been made; nothing was written to it.`),
    ]);
  }
}

function chosenBranch(app, query, body) {
  const here = app.may('change');
  const there = app.mayElsewhere('change') && app.mayElsewhere('branch_create');
  const name = h('input', {
    value: `changes/${query.name}-${Date.now().toString(36).slice(-4)}`,
    spellcheck: 'false',
    'aria-label': 'Name of the new branch',
  });
  const message = h('input', { placeholder: 'why', maxlength: '500' });
  const radio = (value, checked, off) => h('input', { type: 'radio', name: 'where', value, checked, disabled: off });
  const onNew = radio('new', there, !there);
  const onThis = radio('this', !there && here, !here);
  const body_ = [
    h('p', {}, 'This query ', h('b', {}, 'writes'), '. It becomes one commit, or nothing.'),
    h(
      'pre',
      {},
      Object.keys(body.params ?? {}).length ? JSON.stringify(body.params, null, 2) : (query.description ?? query.name),
    ),
    h(
      'label',
      { class: 'choice' },
      onNew,
      h('span', {}, 'on a new branch ', name, ` from ${app.branch}, to be reviewed`),
    ),
    h(
      'label',
      { class: 'choice' },
      onThis,
      h('span', {}, 'directly on ', h('b', {}, app.branch), !here && h('span', { class: 'dim' }, ' (not allowed)')),
    ),
    field('Message', message),
  ];
  return ask({
    title: `Write with ${query.name}`,
    body: body_,
    action: 'Write',
    answer: () => ({
      isNew: onNew.checked,
      branch: onNew.checked ? name.value.trim() : app.branch,
      message: message.value.trim(),
    }),
    ready: () => (onNew.checked ? name.value.trim() !== '' : onThis.checked),
  });
}

function outcome(app, done, where) {
  const open = h(
    'button',
    { onclick: () => app.go('query', { branch: where.branch, at: '' }) },
    `Look at ${where.branch}`,
  );
  const review =
    where.branch !== 'main' &&
    h(
      'button',
      {
        class: 'primary',
        onclick: () => app.go('review', { source: where.branch, target: where.isNew ? app.branch : 'main' }),
      },
      'Review',
    );
  const facts = done.commit_id
    ? ['commit ', h('code', { title: done.commit_id }, shortId(done.commit_id))]
    : ['nothing changed'];
  app.announce(`Written to ${where.branch}`);
  return h(
    'div',
    { class: 'page' },
    h(
      'div',
      { class: 'card done' },
      h('h2', {}, `Written to ${where.branch}`),
      h('p', {}, `${count(done.affected_nodes, 'node')} and ${count(done.affected_edges, 'edge')} · `, facts),
      h('div', { class: 'row' }, review, open),
    ),
  );
}
