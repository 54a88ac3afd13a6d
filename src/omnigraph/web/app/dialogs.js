// Questions, notes and refusals: one look for all screens.

import { fill, h } from './dom.js';

/** Show a dialog; resolves to what `answer()` says, or to null if it is closed. */
export function ask({ title, body, action, danger = false, answer, ready = null }) {
  return new Promise((resolve) => {
    const go = h('button', { class: danger ? 'danger' : 'primary', type: 'submit' }, action);
    const close = h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel');
    const id = `dialog-${crypto.randomUUID()}`;
    let said = null;
    const form = h('form', {}, h('h2', { id }, title), body, h('div', { class: 'actions' }, close, go));
    const dialog = h('dialog', { 'aria-labelledby': id }, form);
    const check = () => (go.disabled = ready !== null && !ready());
    form.addEventListener('input', check);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      said = answer();
      dialog.close();
    });
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(said);
    });
    document.body.append(dialog);
    check();
    dialog.showModal();
  });
}

/** A labelled field of a dialog or form. */
export function field(label, control, note = null) {
  return h('label', { class: 'field' }, h('span', {}, label), control, note && h('span', { class: 'dim small' }, note));
}

export async function confirm(title, text, action, danger = true) {
  return (await ask({ title, body: h('p', {}, text), action, danger, answer: () => true })) === true;
}

/** Ask who somebody is. */
export async function askToken(wasWrong) {
  const token = h('input', { type: 'password', autocomplete: 'off', required: true, spellcheck: 'false' });
  const keep = h('input', { type: 'checkbox' });
  const body = [
    h('p', {}, wasWrong ? 'The server does not know this token.' : 'This server wants to know who you are.'),
    field('Token', token, 'It stays in the memory of this tab; reloading the page forgets it.'),
    h('label', { class: 'choice' }, keep, 'Keep it for this tab, over reloads'),
  ];
  return ask({
    title: 'Sign in',
    body,
    action: 'Continue',
    answer: () => ({ token: token.value, keep: keep.checked }),
    ready: () => token.value !== '',
  });
}

export function toast(text, { bad = false, action = null } = {}) {
  const close = h('button', { class: 'plain', 'aria-label': 'Close', onclick: () => note.remove() }, '✕');
  const note = h(
    'div',
    { class: bad ? 'toast bad' : 'toast', role: bad ? 'alert' : 'status' },
    h('span', { class: 'grow' }, text),
    action && h('button', { onclick: () => (note.remove(), action.run()) }, action.label),
    close,
  );
  document.getElementById('toasts').append(note);
  if (!bad) setTimeout(() => note.remove(), 12_000);
}

/** A refusal in full: what is wrong, where, and what to do. */
export function problem(error) {
  const lines = [
    ...(error.diagnostics ?? []).map(
      (one) =>
        `${one.line ?? ''}:${one.column ?? ''} ${one.code} ${one.message}${one.hint ? `\n      hint: ${one.hint}` : ''}`,
    ),
    ...(error.violations ?? []).slice(0, 20).map((one) => one.message ?? JSON.stringify(one)),
    ...(error.conflicts ?? []).slice(0, 20).map((one) => `${one.kind}: ${one.message}`),
  ];
  return h(
    'div',
    { class: 'problem', role: 'alert' },
    h('h3', {}, error.message),
    lines.length > 0 && h('pre', {}, lines.join('\n')),
    error.hint && h('div', { class: 'hint' }, h('b', {}, 'hint '), error.hint),
    error.status >= 500 && h('div', { class: 'dim small' }, `request ${error.requestId ?? ''}`),
  );
}

/** Fill a place with what some work makes; a refusal is shown there. */
export async function shownIn(place, work, waiting = 'Loading…') {
  fill(place, h('div', { class: 'empty' }, h('span', { class: 'busy', 'aria-hidden': 'true' }), ' ', waiting));
  try {
    fill(place, await work());
  } catch (error) {
    if (error.name === 'AbortError') return;
    if (error instanceof TypeError && error.message !== 'Failed to fetch') reportError(error); // ours
    fill(place, problem(error));
  }
}
