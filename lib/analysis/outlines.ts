import type { RouteTable, TableOutline } from '../policy/decide/policy-index.ts';
import type { Shapes } from './shapes.ts';

/** Equal for tables that decide alike. */
export function tableShape(table: RouteTable | null, shapes: Shapes): number {
  return table === null ? -1 : shapes.of(`t ${table.traits.respelled} ${outlineShape(table.outline(), shapes)}`);
}

function outlineShape(outline: TableOutline, shapes: Shapes): string {
  switch (outline.kind) {
    case 'every':
    case 'calls':
      return `${outline.kind} ${shapes.rule(outline.found.rule)}`;
    case 'http':
    case 'grpc': {
      const hosts = outline.hosts.map(({ hostname, entries }) => {
        const rows = entries.map(({ match, rule }) => shapes.of(`e ${shapes.rule(rule)} ${JSON.stringify(match)}`));
        return `${hostname} ${rows.join()}`;
      });
      return `${outline.kind} ${shapes.of(hosts.join('|'))}`;
    }
    case 'probed': {
      const probes = outline.probes.map(({ paths, grant }) => `${shapes.grant(grant)} ${JSON.stringify(paths)}`);
      return `probed ${probes.join()} ${outlineShape(outline.own, shapes)}`;
    }
    case 'refused': {
      const { good, withRefused, first } = outline;
      return `refused ${[good, withRefused, first].map((each) => (each === null ? '' : outlineShape(each, shapes))).join('|')}`;
    }
  }
}
