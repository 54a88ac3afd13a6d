// Queries that show what is in a type.

/** One to begin with. */
export function firstQuery(catalog) {
  const best = [...catalog.nodes].sort((a, b) => b.row_count - a.row_count)[0];
  return best ? exampleOf(best, false, catalog) : '';
}

/** One for a type of nodes or edges. */
export function exampleOf(one, isEdge, catalog) {
  const shown = (variable, kind, most) =>
    kind.properties
      .filter((prop) => prop.scalar !== 'Vector' && prop.scalar !== 'Blob')
      .slice(0, most)
      .map((prop) => `$${variable}.${prop.name}`);
  if (!isEdge) {
    const columns = shown('n', one, 5).join(', ') || '$n.id';
    return `query ${one.name.toLowerCase()}_rows() {\n  match {\n    $n: ${one.name}\n  }\n  return { ${columns} }\n  limit 200\n}\n`;
  }
  const label = (variable, name) => `$${variable}.${catalog.nodes.find((kind) => kind.name === name)?.label ?? 'id'}`;
  const columns = [
    label('a', one.from) + ' as from_node',
    label('b', one.to) + ' as to_node',
    ...shown('e', one, 3),
  ].join(', ');
  return `query ${one.word}_rows() {\n  match {\n    $a: ${one.from}\n    $b: ${one.to}\n    $a $e:${one.word} $b\n  }\n  return { ${columns} }\n  limit 200\n}\n`;
}
