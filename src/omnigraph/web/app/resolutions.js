// How conflicts are settled, and the file of it: a line per conflict, as the command line writes and
// reads it. Pure.

export const ROW_KINDS = new Set(['divergent_insert', 'divergent_update', 'delete_vs_update']);

export const keyOfConflict = (one) =>
  `${one.table_key}\n${one.row_id ?? ''}\n${ROW_KINDS.has(one.kind) ? '' : one.kind + one.message}`;

export class Resolutions {
  #conflicts = new Map();
  #choices = new Map();

  /** Take note of conflicts the server told of; those of earlier looks stay. */
  see(conflicts) {
    for (const one of conflicts) {
      const key = keyOfConflict(one);
      if (!this.#conflicts.has(key)) this.#conflicts.set(key, { ...one, resolution: undefined });
      if (one.resolution) this.#choices.set(key, one.resolution);
    }
  }

  get rows() {
    return [...this.#conflicts.values()].filter((one) => ROW_KINDS.has(one.kind));
  }

  of(one) {
    return this.#choices.get(keyOfConflict(one)) ?? null;
  }

  settle(one, resolution) {
    if (resolution === null) this.#choices.delete(keyOfConflict(one));
    else this.#choices.set(keyOfConflict(one), resolution);
  }

  get count() {
    return this.#choices.size;
  }

  /** What a merge is told. */
  get told() {
    return [...this.#conflicts]
      .filter(([key]) => this.#choices.has(key))
      .map(([key, one]) => ({
        table_key: one.table_key,
        row_id: one.row_id,
        kind: one.kind,
        resolution: this.#choices.get(key),
      }));
  }

  /** All conflicts as lines, open ones with a resolution of null. */
  get lines() {
    return this.rows.map((one) => `${JSON.stringify({ ...one, resolution: this.of(one) })}\n`).join('');
  }

  /** Read such lines; returns how many resolutions they had. */
  read(text) {
    const found = text
      .split('\n')
      .filter((line) => line.trim())
      .map((line, at) => parsed(line, at + 1));
    const settled = found.filter((one) => one.resolution !== null && one.resolution !== undefined);
    for (const one of settled) {
      const known = [...this.#conflicts.keys()].find((key) =>
        key.startsWith(`${one.table_key}\n${one.row_id ?? ''}\n`),
      );
      if (!known) this.#conflicts.set(keyOfConflict(one), { ...one, resolution: undefined });
      this.#choices.set(known ?? keyOfConflict(one), one.resolution);
    }
    return settled.length;
  }
}

function parsed(line, number) {
  try {
    const one = JSON.parse(line);
    if (one !== null && typeof one.table_key === 'string') return one;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new Error(`line ${number} is no conflict`);
}
