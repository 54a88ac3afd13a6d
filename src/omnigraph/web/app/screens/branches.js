// Branches and their commits, newest first, as lines that part and meet.

import { ask, confirm, field, problem, shownIn, toast } from '../dialogs.js';
import { fill, h, s } from '../dom.js';
import { lanesOf } from '../lanes.js';
import { ago, shortId } from '../values.js';

const LIMIT = 200;
const ROW = 38;
const LANE = 22;
const WHEEL = ['#3a78d6', '#c2571a', '#2b8a57', '#7d5fc9', '#b8437f', '#84731a', '#1f8793'];

export class Branches {
  constructor(app) {
    this.app = app;
    this.place = h('div', {});
    const create = app.mayElsewhere('branch_create');
    const head = h(
      'div',
      { class: 'row hero' },
      h('h1', { class: 'grow' }, 'Branches and history'),
      create && h('button', { onclick: () => this.#newBranch() }, 'New branch'),
      create && h('button', { onclick: () => this.#newTag() }, 'Tag'),
    );
    this.element = h('div', { class: 'page' }, head, this.place);
  }

  shown() {
    return shownIn(this.place, () => this.#history());
  }

  async #history() {
    const [{ commits, heads }, { tags }] = await Promise.all([
      this.app.api.get('/commits', { branch: '*', limit: LIMIT }),
      this.app.api.get('/tags'),
    ]);
    const lanes = lanesOf(commits, heads);
    const note =
      commits.length === LIMIT && h('p', { class: 'dim' }, `The newest ${LIMIT} commits of all branches are shown.`);
    return [
      h(
        'div',
        { class: 'dag' },
        this.#lines(lanes),
        h(
          'ol',
          { class: 'commits' },
          lanes.rows.map((one) => this.#commit(one, heads, tags)),
        ),
      ),
      note,
    ];
  }

  #lines({ rows, width, lines }) {
    const x = (lane) => 18 + lane * LANE;
    const y = (row) => row * ROW + ROW / 2;
    const colour = (lane) => WHEEL[lane % WHEEL.length];
    const paths = lines.map(({ from, to, lane }) => {
      const [x0, y0, x1, y1] = [x(from.lane), y(from.row), x(to.lane), y(to.row)];
      const bow = Math.min(ROW * 0.8, (y1 - y0) / 2);
      // A line stays in its own lane until it is next to where it ends.
      const d =
        from.lane === to.lane
          ? `M${x0} ${y0}V${y1}`
          : lane === from.lane
            ? `M${x0} ${y0}V${y1 - bow}C${x0} ${y1} ${x1} ${y1 - bow} ${x1} ${y1}`
            : `M${x0} ${y0}C${x0} ${y0 + bow} ${x1} ${y0} ${x1} ${y0 + bow}V${y1}`;
      return s('path', { d, style: { stroke: colour(lane) } });
    });
    const dots = rows.map((one) =>
      s('circle', { cx: x(one.lane), cy: y(one.row), r: 5.5, style: { fill: colour(one.lane) } }),
    );
    return s(
      'svg',
      { class: 'lines', width: 18 + width * LANE, height: rows.length * ROW, 'aria-hidden': 'true' },
      paths,
      dots,
    );
  }

  #commit({ commit }, heads, tags) {
    const id = commit.graph_commit_id;
    const ends = Object.keys(heads).filter((name) => heads[name] === id);
    const named = tags.filter((one) => one.graph_commit_id === id);
    const own = ends.filter((name) => name !== 'main');
    return h(
      'li',
      { 'data-commit': id },
      h('code', { title: id }, shortId(id)),
      ends.map((name) => h('span', { class: name === 'main' ? 'tag good' : 'tag warn' }, name)),
      named.map((one) => h('span', { class: 'tag', title: one.message }, '⚑ ', one.name)),
      h('span', { class: 'who' }, commit.actor_id ?? h('span', { class: 'dim' }, 'nobody named')),
      h('span', { class: 'dim', title: new Date(commit.created_at / 1000).toISOString() }, ago(commit.created_at)),
      h('span', { class: 'message dim', title: commit.message }, commit.message ?? ''),
      h('span', { class: 'grow' }),
      named.map(
        (one) =>
          this.app.mayElsewhere('branch_delete') &&
          h(
            'button',
            {
              class: 'plain small',
              'aria-label': `Delete tag ${one.name}`,
              onclick: () => this.#deleteTag(one.name),
            },
            '⚑✕',
          ),
      ),
      own.map(
        (name) =>
          this.app.mayElsewhere('branch_delete') &&
          h(
            'button',
            {
              class: 'plain small',
              'aria-label': `Delete branch ${name}`,
              onclick: () => this.#delete(name),
            },
            'Delete',
          ),
      ),
      h(
        'button',
        {
          onclick: () => this.app.go('query', { branch: commit.manifest_branch ?? 'main', at: id }),
          'aria-label': `Read at ${shortId(id)}`,
        },
        'Read at',
      ),
      own.map((name) =>
        h(
          'button',
          {
            class: 'primary',
            'aria-label': `Review ${name}`,
            onclick: () => this.app.go('review', { source: name }),
          },
          'Review',
        ),
      ),
    );
  }

  async #done(work, text) {
    try {
      await work();
      toast(text);
      await this.app.refresh();
      await this.shown();
    } catch (error) {
      fill(this.place, problem(error), h('button', { onclick: () => this.shown() }, 'Back to the history'));
    }
  }

  #sources() {
    return h(
      'select',
      {},
      this.app.branches.map((one) => h('option', { value: one, selected: one === this.app.branch }, one)),
    );
  }

  async #newBranch() {
    const name = h('input', { required: true, spellcheck: 'false' });
    const source = this.#sources();
    const body = [field('Name', name), field('From', source)];
    const said = await ask({
      title: 'New branch',
      body,
      action: 'Create',
      answer: () => ({ name: name.value.trim(), from: source.value }),
      ready: () => name.value.trim() !== '',
    });
    if (said) await this.#done(() => this.app.api.post('/branches', said), `Branch ${said.name} was made`);
  }

  async #newTag() {
    const name = h('input', { required: true, spellcheck: 'false' });
    const branch = this.#sources();
    const message = h('input', {});
    const body = [field('Name', name), field('The newest commit of', branch), field('Message', message)];
    const said = await ask({
      title: 'Tag a commit',
      body,
      action: 'Tag',
      answer: () => ({
        name: name.value.trim(),
        branch: branch.value,
        message: message.value.trim() || null,
      }),
      ready: () => name.value.trim() !== '',
    });
    if (said) await this.#done(() => this.app.api.post('/tags', said), `Tag ${said.name} was made`);
  }

  async #delete(name) {
    if (
      await confirm(
        `Delete ${name}?`,
        'The branch and what only it knows are gone for good; merged commits stay.',
        'Delete',
      )
    )
      await this.#done(
        () => this.app.api.delete(`/branches/${encodeURIComponent(name)}`),
        `Branch ${name} was deleted`,
      );
  }

  async #deleteTag(name) {
    if (await confirm(`Let go of the tag ${name}?`, 'Its commit stays; cleanup may take it later.', 'Delete'))
      await this.#done(() => this.app.api.delete(`/tags/${encodeURIComponent(name)}`), `Tag ${name} was deleted`);
  }
}
