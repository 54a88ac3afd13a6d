// What a branch would bring, field by field; conflicts, settled row by row or property by property.
// What counts as settled is the server's word: every choice is tried in a preview.

import { confirm, problem, shownIn, toast } from '../dialogs.js';
import { changeCards, nameOf, title } from '../changes.js';
import { fill, h, later, save } from '../dom.js';
import { Conflicts } from '../conflict.js';
import { ROW_KINDS, Resolutions, keyOfConflict } from '../resolutions.js';
import { count, shortId } from '../values.js';

const MOST = 1_000;

export class Review {
  #turn = 0;
  #preview = null;

  constructor(app, said) {
    this.app = app;
    this.target = said.target || 'main';
    this.source =
      said.source ||
      (app.branch !== this.target ? app.branch : (app.branches.find((one) => one !== this.target) ?? ''));
    this.resolutions = new Resolutions();
    this.head = h('div', { class: 'row hero' });
    this.body = h('div', {});
    this.element = h('div', { class: 'page' }, this.head, this.body);
    this.again = later(() => this.#tried(), 150);
  }

  async shown() {
    this.#heading();
    if (!this.source || this.source === this.target) {
      fill(
        this.body,
        h(
          'p',
          { class: 'dim' },
          'There is no other branch to review. Make one under Branches, write on one, or load a file.',
        ),
      );
      return;
    }
    await shownIn(this.body, () => this.#compared(), 'Comparing…');
    this.#heading();
  }

  destroy() {
    this.#turn++;
  }

  #heading() {
    const pick = (label, value, role) => {
      const select = h(
        'select',
        {
          'aria-label': label,
          onchange: () => this.app.go('review', { source: this.source, target: this.target, [role]: select.value }),
        },
        [...new Set([...this.app.branches, value])]
          .filter(Boolean)
          .map((one) => h('option', { value: one, selected: one === value }, one)),
      );
      return select;
    };
    const found = this.#preview;
    const open = found?.total_conflicts ?? 0;
    const state = !found
      ? null
      : open
        ? h('span', { class: 'tag bad' }, `${count(open, 'conflict')} to resolve`)
        : h(
            'span',
            { class: 'tag good' },
            found.outcome === 'already_up_to_date' ? 'nothing to merge' : 'merges cleanly',
          );
    this.merge =
      this.mayMerge &&
      h(
        'button',
        {
          class: 'primary',
          disabled: !found || open > 0 || found.outcome === 'already_up_to_date',
          onclick: () => this.#merge(),
        },
        'Merge',
      );
    fill(
      this.head,
      h('h1', {}, 'Merge ', h('code', {}, this.source || '…'), ' into ', h('code', {}, this.target)),
      state,
      h('span', { class: 'grow' }),
      pick('Branch to review', this.source, 'source'),
      h('span', { class: 'dim' }, 'into'),
      pick('Branch that gets it', this.target, 'target'),
      this.merge,
    );
  }

  async #ask(preview) {
    const found = await this.app.api.post('/branches/merge', {
      source: this.source,
      target: this.target,
      preview,
      resolve: this.resolutions.told,
    });
    return { conflicts: [], ...found }; // none are left out
  }

  async #compared() {
    this.mayMerge = await this.app.mayFrom('branch_merge', this.source, this.target);
    this.rows = new Conflicts(this.resolutions, this, this.mayMerge, () => this.again());
    const [preview, diff] = await Promise.all([
      this.mayMerge ? this.#ask(true) : null,
      this.app.api.get('/diff', { from: `${this.target}...${this.source}`, images: 'both', limit: MOST }),
    ]);
    this.#preview = preview;
    this.diff = diff;
    this.resolutions.see(preview?.conflicts ?? []);
    return this.#parts();
  }

  #parts() {
    const { stats, next_page_token: more } = this.diff;
    const signs = [
      ['+', stats.inserts, 'good'],
      ['~', stats.updates, 'warn'],
      ['−', stats.deletes, 'bad'],
    ].map(([sign, number, kind]) => h('span', { class: `tag ${kind}` }, `${sign} ${number.toLocaleString('en')}`));
    const bases = this.#preview?.bases ?? [];
    const facts = h(
      'p',
      { class: 'row dim' },
      bases.length > 0 && ['began from ', bases.map((one) => h('code', { title: one }, shortId(one)))],
      signs,
      more && `the first ${MOST} changes are shown`,
    );
    const rows = new Map(this.resolutions.rows.map((one) => [`${one.table_key}\n${one.row_id}`, one]));
    const seen = new Set();
    const conflictOf = (change) => {
      const one = rows.get(`${change.table_key}\n${change.id}`);
      if (!one) return null;
      seen.add(one);
      return this.rows.element(one, nameOf(change));
    };
    const cards = changeCards(this.app, this.diff.changes, conflictOf);
    const left = [...rows.values()].filter((one) => !seen.has(one));
    const none = !this.diff.changes.length && !left.length && h('p', { class: 'dim' }, 'Nothing differs.');
    this.rules = h('div', { class: 'cards' });
    this.#showRules();
    return [
      facts,
      !this.mayMerge && h('p', { class: 'dim' }, 'You may look at this, not merge it.'),
      this.#tools(rows.size),
      this.rules,
      h('div', { class: 'cards' }, this.#byTable(left), cards),
      none,
    ];
  }

  // Conflicts of rows the diff does not list among its first ones.
  #byTable(conflicts) {
    const keys = [...new Set(conflicts.map((one) => one.table_key))];
    return keys.map((key) => {
      const own = conflicts.filter((one) => one.table_key === key);
      return h(
        'section',
        { class: 'card' },
        title(this.app, key, count(own.length, 'conflict')),
        own.map((one) => this.rows.element(one, one.row_id)),
      );
    });
  }

  #tools(conflicts) {
    if (!conflicts) return null;
    const all = (side, text) => h('button', { onclick: () => this.#settleAll(side) }, text);
    const file = h('input', {
      type: 'file',
      accept: '.jsonl,.ndjson,.json',
      hidden: true,
      'aria-label': 'File of resolutions',
      onchange: () => this.#upload(file),
    });
    return h(
      'div',
      { class: 'row tools-row' },
      all('ours', `Keep all of ${this.target}`),
      all('theirs', `Take all of ${this.source}`),
      h('span', { class: 'grow' }),
      h(
        'button',
        {
          onclick: () =>
            save(`${this.source.replaceAll('/', '-')}.conflicts.jsonl`, this.resolutions.lines, 'application/x-ndjson'),
        },
        'Save resolutions',
      ),
      h('button', { onclick: () => file.click() }, 'Read resolutions'),
      file,
    );
  }

  #settleAll(side) {
    for (const one of this.resolutions.rows) this.resolutions.settle(one, side);
    fill(this.body, this.#parts());
    this.again();
  }

  async #upload(file) {
    try {
      const read = this.resolutions.read(await file.files[0].text());
      fill(this.body, this.#parts());
      toast(`${count(read, 'resolution')} read`);
      this.again();
    } catch (error) {
      toast(error.message, { bad: true });
    }
  }

  // Rules both sides break together are nobody's choice.
  #showRules() {
    const rules = (this.#preview?.conflicts ?? []).filter((one) => !ROW_KINDS.has(one.kind));
    const hidden = (this.#preview?.total_conflicts ?? 0) - (this.#preview?.conflicts.length ?? 0);
    fill(
      this.rules,
      rules.length > 0 &&
        h(
          'section',
          { class: 'card' },
          h('h2', {}, 'Rules that both sides break together', h('span', { class: 'tag bad' }, rules.length)),
          h(
            'ul',
            { class: 'inside rules' },
            rules.map((one) =>
              h(
                'li',
                {},
                h('span', { class: 'tag bad' }, one.kind),
                ' ',
                h('code', {}, [one.table_key, one.row_id].filter(Boolean).join(' ')),
                h('div', {}, one.message),
              ),
            ),
          ),
          h(
            'p',
            { class: 'inside dim' },
            'Change one of the sides, then look again. ',
            h(
              'button',
              { onclick: () => this.app.go('query', { branch: this.source, at: '' }) },
              `Change ${this.source}`,
            ),
            ' ',
            h('button', { onclick: () => this.shown() }, 'Look again'),
          ),
        ),
      hidden > 0 && h('p', { class: 'dim' }, `${hidden} more conflicts come up once these are settled.`),
    );
  }

  /** Ask the server what is left under the choices made so far. */
  async #tried() {
    const turn = ++this.#turn;
    try {
      const found = await this.#ask(true);
      if (turn !== this.#turn) return;
      const known = new Set(this.resolutions.rows.map(keyOfConflict));
      const fresh = found.conflicts.some((one) => ROW_KINDS.has(one.kind) && !known.has(keyOfConflict(one)));
      this.#preview = found;
      this.resolutions.see(found.conflicts);
      if (fresh) fill(this.body, this.#parts());
      else this.#showRules();
      this.#heading();
      this.app.announce(found.total_conflicts ? `${count(found.total_conflicts, 'conflict')} left` : 'Merges cleanly');
    } catch (error) {
      if (turn === this.#turn) toast([error.message, error.hint].filter(Boolean).join(': '), { bad: true });
    }
  }

  async #merge() {
    const sure = await confirm(
      `Merge ${this.source} into ${this.target}?`,
      `${count(this.diff.stats.inserts + this.diff.stats.updates + this.diff.stats.deletes, 'change')} become one commit on ${this.target}.`,
      'Merge',
      false,
    );
    if (!sure) return;
    try {
      const done = await this.#ask(false);
      await this.app.refresh();
      const made = done.commit_id ? [' as commit ', h('code', { title: done.commit_id }, shortId(done.commit_id))] : '';
      fill(
        this.body,
        h(
          'section',
          { class: 'card done' },
          h('h2', {}, 'Merged'),
          h('p', {}, `${this.source} is part of ${this.target} now`, made, '.'),
          h(
            'div',
            { class: 'row' },
            h('button', { class: 'primary', onclick: () => this.app.go('branches') }, 'History'),
            h(
              'button',
              { onclick: () => this.app.go('query', { branch: this.target, at: '' }) },
              `Look at ${this.target}`,
            ),
          ),
        ),
      );
      this.#preview = { ...this.#preview, outcome: 'already_up_to_date', total_conflicts: 0 };
      this.#heading();
      this.app.announce('Merged');
    } catch (error) {
      this.resolutions.see(error.conflicts ?? []);
      fill(this.body, problem(error), h('button', { onclick: () => this.shown() }, 'Look again'));
    }
  }
}
