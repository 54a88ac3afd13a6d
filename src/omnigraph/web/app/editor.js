// The editor, in a shadow root: there its style sheets are adopted ones, which need no exception from
// the page's policy.

import * as cm from '../vendor/codemirror.js';
import { complete } from './complete.js';
import { h } from './dom.js';
import { byteIndex } from './values.js';
import { token } from './words.js';

const language = cm.StreamLanguage.define({
  name: 'gq',
  startState: () => ({ comment: false }),
  token,
  tokenTable: { function: cm.tags.function(cm.tags.variableName) },
  languageData: { commentTokens: { line: '//' }, closeBrackets: { brackets: ['{', '(', '[', '"'] } },
});

const { tags } = cm;
const colours = cm.HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--keyword)', fontWeight: '600' },
  { tag: tags.typeName, color: 'var(--type)' },
  { tag: tags.variableName, color: 'var(--variable)' },
  { tag: [tags.string, tags.number], color: 'var(--value)' },
  { tag: tags.function(tags.variableName), color: 'var(--function)' },
  { tag: tags.comment, color: 'var(--dim)', fontStyle: 'italic' },
  { tag: tags.meta, color: 'var(--dim)' },
]);

const looks = cm.EditorView.theme({
  '&': { height: '100%', fontSize: '13.5px', backgroundColor: 'var(--panel)', color: 'var(--text)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.45' },
  '.cm-content': { caretColor: 'var(--text)', padding: '8px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--panel)', color: 'var(--dim)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': {
    backgroundColor: 'color-mix(in srgb, var(--raised) 70%, transparent)',
  },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 28%, transparent)',
  },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'color-mix(in srgb, var(--good) 25%, transparent)' },
  '.cm-placeholder': { color: 'var(--dim)' },
  '.cm-tooltip': {
    backgroundColor: 'var(--panel)',
    border: '1px solid var(--line)',
    borderRadius: '6px',
    color: 'var(--text)',
    boxShadow: '0 8px 30px var(--shade)',
    overflow: 'hidden',
  },
  '.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': {
    backgroundColor: 'var(--accent)',
    color: 'var(--on-accent)',
  },
  '.cm-tooltip-autocomplete ul li[aria-selected] .cm-completionDetail': { color: 'inherit' },
  '.cm-completionDetail': { color: 'var(--dim)', fontStyle: 'normal', marginLeft: '1.2em' },
  '.cm-completionInfo': { maxWidth: '340px', padding: '8px 10px' },
  '.cm-diagnostic': {
    padding: '6px 10px',
    borderLeftWidth: '3px',
    whiteSpace: 'pre-wrap',
    maxWidth: '640px',
  },
  '.cm-diagnostic-hint': { display: 'block', color: 'var(--good)' },
});

// A browser that types over a selection by itself puts a style on what it inserts, which the policy
// of the page refuses aloud; so the editor does it.
function typedOver(event, view) {
  const { from, to, empty } = view.state.selection.main;
  if (empty || event.inputType !== 'insertText' || event.data === null || view.composing) return false;
  const insert = () =>
    view.state.update(view.state.replaceSelection(event.data), {
      userEvent: 'input.type',
      scrollIntoView: true,
    });
  const handlers = view.state.facet(cm.EditorView.inputHandler);
  if (!handlers.some((one) => one(view, from, to, event.data, insert))) view.dispatch(insert());
  event.preventDefault();
  return true;
}

/** An editor; `on` has change(text) and run(). */
export class Editor {
  #view;
  #catalog = { nodes: [], edges: [] };
  #silent = false;

  constructor(text, on) {
    this.element = h('div', { class: 'editor' });
    const root = this.element.attachShadow({ mode: 'open' });
    const host = h('div', { style: { height: '100%' } });
    root.append(host);
    this.#view = new cm.EditorView({
      root,
      parent: host,
      state: cm.EditorState.create({ doc: text, extensions: this.#extensions(on) }),
    });
  }

  #extensions(on) {
    const run = { key: 'Mod-Enter', run: () => (on.run(), true), preventDefault: true };
    return [
      cm.lineNumbers(),
      cm.highlightActiveLine(),
      cm.highlightActiveLineGutter(),
      cm.history(),
      cm.drawSelection(),
      cm.bracketMatching(),
      cm.closeBrackets(),
      cm.lintGutter(),
      language,
      cm.syntaxHighlighting(colours),
      looks,
      cm.autocompletion({
        override: [(context) => this.#completed(context)],
        icons: false,
        interactionDelay: 0,
      }),
      cm.EditorView.domEventHandlers({ beforeinput: typedOver }),
      cm.EditorView.contentAttributes.of({ 'aria-label': 'Query text', spellcheck: 'false' }),
      cm.Prec.highest(cm.keymap.of([run, { key: 'Tab', run: cm.acceptCompletion }])),
      cm.keymap.of([
        ...cm.closeBracketsKeymap,
        ...cm.defaultKeymap,
        ...cm.historyKeymap,
        ...cm.completionKeymap,
        { key: 'F8', run: cm.nextDiagnostic },
      ]),
      cm.EditorView.updateListener.of((update) => {
        if (update.docChanged && !this.#silent) on.change(this.text);
      }),
    ];
  }

  #completed(context) {
    const text = context.state.doc.toString();
    const found = complete(text.slice(0, context.pos), text.slice(context.pos), this.#catalog, context.explicit);
    if (!found?.options.length) return null;
    return { from: context.pos - found.typed, options: found.options, validFor: /^\w*$/ };
  }

  set catalog(catalog) {
    this.#catalog = catalog;
  }

  get text() {
    return this.#view.state.doc.toString();
  }

  get cursor() {
    return this.#view.state.selection.main.head;
  }

  /** Take another text; who set it need not be told. */
  set text(text) {
    this.#silent = true;
    this.#view.dispatch({ changes: { from: 0, to: this.#view.state.doc.length, insert: text } });
    this.#silent = false;
  }

  focus() {
    this.#view.focus();
  }

  /** Show what the server says of the text, where it says it. */
  diagnose(found) {
    const at = byteIndex(this.text);
    const length = this.text.length;
    const marks = found.map((one) => {
      const from = Math.min(at(one.span?.start ?? 0), length);
      const to = Math.min(Math.max(at(one.span?.end ?? 0), from), length);
      return {
        from,
        to,
        severity: one.severity,
        message: `${one.code} ${one.message}`,
        renderMessage: () =>
          h('span', {}, `${one.code} ${one.message}`, one.hint && h('span', { class: 'cm-diagnostic-hint' }, one.hint)),
      };
    });
    this.#view.dispatch(cm.setDiagnostics(this.#view.state, marks));
  }

  destroy() {
    this.#view.destroy();
  }
}
