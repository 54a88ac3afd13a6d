// The shell: which screen, which branch, which moment, who asks. Screens know the app, not each other.

import { Api, ApiError } from './api.js';
import { Colours } from './colours.js';
import { askToken, problem } from './dialogs.js';
import { fill, h } from './dom.js';
import { carried, hashOf, placeOf } from './place.js';
import { ago, shortId } from './values.js';
import { Admin } from './screens/admin.js';
import { Branches } from './screens/branches.js';
import { Entity } from './screens/entity.js';
import { Load } from './screens/load.js';
import { Query } from './screens/query.js';
import { Review } from './screens/review.js';
import { Schema } from './screens/schema.js';

const SCREENS = {
  query: Query,
  schema: Schema,
  branches: Branches,
  review: Review,
  load: Load,
  admin: Admin,
  entity: Entity,
};
const NAMES = {
  query: 'Query',
  schema: 'Schema',
  branches: 'Branches',
  review: 'Review',
  load: 'Load',
  admin: 'Admin',
};
const NEW_BRANCH = 'somebody/else'; // stands for any branch that is not there yet
const RECENT = 30;
const THEME = 'omnigraph.theme';

class App {
  api = new Api(askToken);
  me = null;
  elsewhere = null;
  catalog = null;
  colours = new Colours([]);
  branches = ['main'];
  tags = [];
  said = {};
  #screen = null;
  #shown = null;
  #turn = 0;

  constructor() {
    this.main = document.getElementById('main');
    this.top = document.getElementById('top');
    this.live = document.getElementById('live');
    addEventListener('hashchange', () => this.#arrive());
    addEventListener('keydown', (event) => this.#pressed(event));
    document.getElementById('skip').addEventListener('click', (event) => {
      event.preventDefault();
      this.main.focus();
    });
    retheme(localStorage.getItem(THEME));
    this.#arrive();
  }

  get branch() {
    return this.said.branch || 'main';
  }

  get at() {
    return this.said.at || null;
  }

  /** Which state is read, as requests say it. */
  get state() {
    return this.at ? { snapshot: this.at } : { branch: this.branch };
  }

  /** Whether who asks may do something on this branch; the server judges all the same. */
  may(action) {
    return this.me.allowed.includes(action);
  }

  /** The same of a branch that is yet to be made. */
  mayElsewhere(action) {
    return this.elsewhere.allowed.includes(action);
  }

  async mayFrom(action, branch, target) {
    return (await this.api.get('/me', { branch, target })).allowed.includes(action);
  }

  announce(text) {
    this.live.textContent = text;
  }

  /** Go to another screen, on the same branch and moment unless something else is said. */
  go(screen, said = {}) {
    const hash = hashOf(screen, { ...carried(this.said), ...said });
    if (location.hash === hash) this.#arrive();
    else location.hash = hash;
  }

  /** Note in the address what the screen shows now, without going anywhere. */
  note(said) {
    Object.assign(this.said, said);
    history.replaceState(null, '', hashOf(this.#shown, this.said));
  }

  /** Look again at what there is: branches came or went. */
  async refresh() {
    await this.#load();
    this.#bar();
  }

  async #arrive() {
    const turn = ++this.#turn;
    const { screen, said } = placeOf(location.hash);
    const before = `${this.said.branch} ${this.said.at}`;
    this.said = said;
    try {
      if (this.me === null || before !== `${said.branch} ${said.at}`) await this.#load();
      if (turn !== this.#turn) return;
      this.#show(SCREENS[screen] ? screen : 'query');
    } catch (error) {
      if (turn !== this.#turn) return;
      const back = h('button', { onclick: () => (location.hash = '#query') }, 'Back to main');
      const again = h('button', { class: 'primary', onclick: () => this.#arrive() }, 'Try again');
      fill(
        this.main,
        h(
          'div',
          { class: 'page' },
          h('h1', {}, 'This cannot be shown'),
          problem(error),
          h('div', { class: 'row' }, again, back),
        ),
      );
    }
  }

  async #load() {
    const { branch, state } = this;
    this.me = await this.api.get('/me', { branch });
    const [elsewhere, catalog, branches, tags] = await Promise.all([
      this.api.get('/me', { branch: NEW_BRANCH }),
      this.api.get('/catalog', state),
      this.api.get('/branches').catch(unless403({ branches: [branch] })),
      this.api.get('/tags').catch(unless403({ tags: [] })),
    ]);
    Object.assign(this, { elsewhere, catalog, branches: branches.branches, tags: tags.tags });
    this.colours = new Colours(catalog.nodes.map((one) => one.name));
  }

  #show(name) {
    this.#screen?.destroy?.();
    this.#shown = name;
    document.title = `${NAMES[name] ?? 'Entity'} · ${this.me.graph} · OmniGraph`;
    this.#bar();
    this.#screen = new SCREENS[name](this, this.said);
    fill(this.main, this.#screen.element);
    this.#screen.shown?.();
  }

  #names() {
    const hidden = { load: !this.mayElsewhere('change'), admin: !this.may('admin') };
    return Object.entries(NAMES).filter(([name]) => !hidden[name]);
  }

  #bar() {
    const links = this.#names().map(([name, title], at) =>
      h(
        'a',
        {
          href: hashOf(name, carried(this.said)),
          'aria-current': name === this.#shown ? 'page' : null,
          title: `Alt-${at + 1}`,
        },
        title,
      ),
    );
    const brand = h(
      'div',
      { class: 'brand' },
      h('img', { src: 'icon.svg', alt: '' }),
      'OmniGraph',
      h('span', { class: 'dim', title: this.me.graph }, this.me.graph),
    );
    const theme = h(
      'button',
      {
        class: 'plain',
        'aria-label': 'Change between light and dark',
        title: 'Light or dark',
        onclick: () => this.#otherTheme(),
      },
      '◐',
    );
    const leave =
      this.api.hasToken &&
      h(
        'button',
        {
          class: 'plain small',
          title: 'Forget the token',
          onclick: () => (this.api.forget(), location.reload()),
        },
        this.me.actor ?? 'Sign out',
      );
    fill(
      this.top,
      brand,
      h('nav', { class: 'screens', 'aria-label': 'Screens' }, links),
      h('span', { class: 'grow' }),
      this.#branchPicker(),
      this.#momentPicker(),
      leave,
      theme,
    );
  }

  #branchPicker() {
    const known = this.branches.includes(this.branch) ? this.branches : [this.branch, ...this.branches];
    const pick = h(
      'select',
      {
        'aria-label': 'Branch',
        onchange: () => this.go(this.#shown, this.#without({ branch: pick.value, at: '' })),
      },
      known.map((name) => h('option', { value: name, selected: name === this.branch }, name)),
    );
    return h('label', { class: 'pick' }, h('span', {}, 'Branch'), pick);
  }

  // The moments of a branch are asked for when somebody wants to choose one.
  #momentPicker() {
    const option = (value, text) => h('option', { value, selected: value === (this.at ?? '') }, text);
    const tags = this.tags.map((one) => option(one.graph_commit_id, `${one.name} (tag)`));
    const known = !this.at || this.tags.some((one) => one.graph_commit_id === this.at);
    const pick = h(
      'select',
      {
        'aria-label': 'At',
        class: this.at ? 'past' : '',
        onchange: () => this.go(this.#shown, this.#without({ at: pick.value })),
      },
      option('', 'head'),
      tags,
      !known && option(this.at, shortId(this.at)),
    );
    let asked = false;
    const more = async () => {
      if (asked) return;
      asked = true;
      try {
        const { commits } = await this.api.get('/commits', { branch: this.branch, limit: RECENT });
        const shown = new Set([...pick.options].map((one) => one.value));
        pick.append(
          ...commits
            .filter((one) => !shown.has(one.graph_commit_id))
            .map((one) =>
              option(
                one.graph_commit_id,
                `${shortId(one.graph_commit_id)} · ${one.actor_id ?? 'nobody named'} · ${ago(one.created_at)}`,
              ),
            ),
        );
      } catch (error) {
        this.announce(error.message);
      }
    };
    pick.addEventListener('pointerdown', more);
    pick.addEventListener('focus', more);
    return h('label', { class: 'pick' }, h('span', {}, 'At'), pick);
  }

  #without(said) {
    return { ...this.said, ...said };
  }

  #otherTheme() {
    const isDark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === 'dark'
      : matchMedia('(prefers-color-scheme: dark)').matches;
    const theme = isDark ? 'light' : 'dark';
    localStorage.setItem(THEME, theme);
    retheme(theme);
  }

  #pressed(event) {
    if (!event.altKey || event.ctrlKey || event.metaKey || !/^Digit[1-9]$/.test(event.code)) return;
    const name = this.me && this.#names()[Number(event.code.slice(5)) - 1]?.[0];
    if (!name) return;
    event.preventDefault();
    this.go(name);
    this.main.focus();
  }
}

// Who may read some branches only may not list them all; the rest of the page goes on without.
function unless403(instead) {
  return (error) => {
    if (error instanceof ApiError && error.status === 403) return instead;
    throw error;
  };
}

function retheme(theme) {
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  dispatchEvent(new Event('omnigraph-theme'));
}

new App();
