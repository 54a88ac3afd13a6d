// One colour per type, the same on every screen; readable on both themes, with white letters.

const WHEEL = [
  '#3a78d6',
  '#c2571a',
  '#2b8a57',
  '#b8437f',
  '#7d5fc9',
  '#84731a',
  '#1f8793',
  '#a6544a',
  '#5a74a8',
  '#6d7f1f',
  '#9a55b4',
  '#b0652a',
];

export class Colours {
  #of = new Map();

  constructor(names) {
    names.forEach((name, at) => this.#of.set(name, WHEEL[at % WHEEL.length]));
  }

  of(name) {
    return this.#of.get(name) ?? '#7c8693';
  }
}

/** What the canvas draws with, taken from the style sheet so that themes live in one place. */
export function inks(element) {
  const style = getComputedStyle(element);
  const probe = (name) => {
    element.style.setProperty('color', `var(${name})`);
    const found = getComputedStyle(element).color;
    element.style.removeProperty('color');
    return found;
  };
  return {
    text: probe('--text'),
    dim: probe('--dim'),
    line: probe('--line'),
    bg: probe('--bg'),
    panel: probe('--panel'),
    accent: probe('--accent'),
    font: style.fontFamily,
  };
}
