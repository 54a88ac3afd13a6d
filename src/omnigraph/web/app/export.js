// A result as a file, and as a link.

import { toast } from './dialogs.js';
import { h, save } from './dom.js';
import { csvCell, isNumber, shown } from './values.js';

const LINES = 'application/x-ndjson';
const ARROW = 'application/vnd.apache.arrow.stream';

/** A menu for a query screen. */
export function exporter(screen) {
  const entry = (title, work) => h('button', { class: 'plain', onclick: () => chosen(work) }, title);
  const menu = h(
    'details',
    { class: 'menu' },
    h('summary', {}, 'Export ▾'),
    h(
      'div',
      { class: 'menu-list' },
      entry('CSV', () => csv(screen)),
      entry('JSON lines', () => rows(screen, LINES, 'jsonl')),
      entry('JSON', () => rows(screen, 'application/json', 'json')),
      entry('Arrow', () => rows(screen, ARROW, 'arrows')),
      entry('Picture as JSON', () => picture(screen)),
      entry('Copy link', () => link()),
    ),
  );
  async function chosen(work) {
    menu.open = false;
    try {
      await work();
    } catch (error) {
      toast(error.message, { bad: true });
    }
  }
  menu.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    menu.open = false;
    menu.firstChild.focus();
  });
  return menu;
}

const nameOf = (screen) => screen.chosen?.name ?? 'rows';

async function rows(screen, accept, ending) {
  const blob = await screen.app.api.blob('POST', '/query', { body: screen.body, accept });
  save(`${nameOf(screen)}.${ending}`, blob);
}

async function csv(screen) {
  const { table } = await screen.app.api.rows('/query', screen.body);
  const columns = table.schema.fields.map((field, at) => ({
    type: field.type,
    values: table.getChildAt(at),
    isText: !isNumber(field.type),
  }));
  const lines = [table.schema.fields.map((field) => csvCell(field.name)).join(',')];
  for (let row = 0; row < table.numRows; row++)
    lines.push(columns.map(({ type, values, isText }) => csvCell(shown(values.at(row), type), isText)).join(','));
  save(`${nameOf(screen)}.csv`, `${lines.join('\r\n')}\r\n`, 'text/csv');
}

function picture(screen) {
  if (!screen.picture) throw new Error('there is no picture now: choose Graph first');
  save(`${nameOf(screen)}.graph.json`, JSON.stringify(screen.picture.data, null, 2), 'application/json');
}

async function link() {
  await navigator.clipboard.writeText(location.href);
  toast('The link is on the clipboard; it holds the query, not the token.');
}
