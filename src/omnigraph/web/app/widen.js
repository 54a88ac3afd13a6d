// A node in a picture is widened by a few neighbours of every kind, never by all of a thousand.

import { toast } from './dialogs.js';

/** Add a few neighbours of a node, by every type of edge. */
export async function widening(app, picture, node) {
  try {
    const found = await app.api.get('/entity/neighbours', {
      table: `node:${node.type}`,
      id: node.id,
      ...app.state,
    });
    const nodes = [];
    const edges = [];
    for (const group of found.groups)
      for (const one of group.neighbours) {
        nodes.push({ type: group.type, id: one.id, label: one.label });
        const out = group.way === 'out';
        edges.push({
          type: group.edge,
          id: one.edge_id,
          from: out ? node.id : one.id,
          from_type: out ? node.type : group.type,
          to: out ? one.id : node.id,
          to_type: out ? group.type : node.type,
        });
      }
    picture.add(nodes, edges);
  } catch (error) {
    toast(error.message, { bad: true });
  }
}
