import type { FileRead, Finished, Machine } from '../../../lib/redirect/machine.ts';

/** A nat table that understands what `iptables-restore --noflush` is given here, and refuses all else. */
export class FakeTable {
  chains = new Map<string, string[]>([
    ['PREROUTING', []],
    ['INPUT', []],
    ['OUTPUT', []],
    ['POSTROUTING', []],
  ]);
  restores = 0;

  save(): string {
    const declared = [...this.chains.keys()].map(
      (chain) => `:${chain} ${/^[A-Z]+$/.test(chain) ? 'ACCEPT' : '-'} [0:0]`,
    );
    const rules = [...this.chains].flatMap(([chain, rules]) => rules.map((rule) => `-A ${chain} ${rule}`));
    return ['# Generated', '*nat', ...declared, ...rules, 'COMMIT', '# Completed', ''].join('\n');
  }

  /** All or nothing, as the real one. */
  restore(input: string): string | null {
    const chains = new Map([...this.chains].map(([chain, rules]) => [chain, [...rules]]));
    const lines = input.split('\n');
    if (lines[0] !== '*nat' || lines.at(-2) !== 'COMMIT' || lines.at(-1) !== '') return 'not one whole table';
    for (const line of lines.slice(1, -2)) {
      const fault = perform(chains, line);
      if (fault !== null) return `${line}: ${fault}`;
    }
    this.chains = chains;
    this.restores += 1;
    return null;
  }
}

function perform(chains: Map<string, string[]>, line: string): string | null {
  const [, declared] = /^:(\S+) - \[0:0\]$/.exec(line) ?? [];
  if (declared !== undefined) {
    chains.set(declared, []);
    return null;
  }
  const [, verb, chain = '', rest = ''] = /^-([ADIX]) (\S+)(?: (.+))?$/.exec(line) ?? [];
  const rules = chains.get(chain);
  if (verb === undefined || rules === undefined) return 'No chain/target/match by that name';
  if (verb === 'A') rules.push(rest);
  if (verb === 'I') {
    const [, position, rule = ''] = /^(\d+) (.*)$/.exec(rest) ?? [];
    if (Number(position) > rules.length + 1) return 'Index of insertion too big';
    rules.splice(Number(position) - 1, 0, rule);
  }
  if (verb === 'D') {
    if (!rules.includes(rest)) return 'Bad rule (does a matching rule exist in that chain?)';
    rules.splice(rules.indexOf(rest), 1);
  }
  if (verb === 'X') {
    const used = [...chains.values()].flat().some((rule) => rule.endsWith(` ${chain}`));
    if (used || rules.length > 0) return 'Directory not empty';
    chains.delete(chain);
  }
  return null;
}

export interface FakeMachineOptions {
  /** Infixes of the installed programs, with what `--version` says. */
  readonly installed?: Readonly<Record<string, string>>;
  /** What a program answers instead of working: standard error, by `${program}`. */
  readonly refuse?: Readonly<Record<string, string>>;
  /** Null: not there. An error code such as `EACCES`, in an object: there, and not to be read. */
  readonly files?: Readonly<Record<string, string | null | { readonly fails: string }>>;
}

export const bothKinds: Readonly<Record<'-nft' | '-legacy' | '', string>> = {
  '-nft': 'v1.8.9 (nf_tables)',
  '-legacy': 'v1.8.9 (legacy)',
  '': 'v1.8.9 (nf_tables)',
};

/** Tables by program: `iptables-nft`, `ip6tables-legacy`, … */
export class FakeMachine implements Machine {
  readonly tables = new Map<string, FakeTable>();
  readonly asked: string[] = [];
  readonly #options: FakeMachineOptions;

  constructor(options: FakeMachineOptions = {}) {
    this.#options = options;
  }

  table(program: string): FakeTable {
    const found = this.tables.get(program) ?? new FakeTable();
    this.tables.set(program, found);
    return found;
  }

  run(command: string, args: readonly string[], input: string): Finished {
    const [, program = '', infix = '', verb] = /^(ip6?tables(-nft|-legacy)?)-(save|restore)$/.exec(command) ?? [];
    const installed: Readonly<Record<string, string>> = this.#options.installed ?? bothKinds;
    const version = installed[infix];
    if (version === undefined) return { status: null, stdout: '', stderr: 'is not installed' };
    if (args[0] === '--version') return { status: 0, stdout: `${command} ${version}\n`, stderr: '' };
    this.asked.push(command);
    const refusal = this.#options.refuse?.[command];
    if (refusal !== undefined) return { status: 1, stdout: '', stderr: refusal };
    const table = this.table(program);
    if (verb === 'save') return { status: 0, stdout: table.save(), stderr: '' };
    const fault = table.restore(input);
    return fault === null ? { status: 0, stdout: '', stderr: '' } : { status: 2, stdout: '', stderr: fault };
  }

  read(path: string): FileRead {
    const files: NonNullable<FakeMachineOptions['files']> = {
      '/proc/self/status': 'Name:\tnode\nCapEff:\t0000000000001000\n',
      '/proc/self/net/dev': 'Inter-|   Receive\n',
      '/proc/self/net/if_inet6': '',
      ...this.#options.files,
    };
    const given = files[path];
    if (given === null) return { kind: 'absent' };
    if (typeof given === 'object') return { kind: 'failed', reason: given.fails };
    if (given !== undefined) return { kind: 'text', text: given };
    const [, six] = /^\/proc\/self\/net\/ip(6)?_tables_names$/.exec(path) ?? [];
    // The kernel lists a legacy table once a program has asked for it.
    const program = six === undefined ? 'iptables-legacy' : 'ip6tables-legacy';
    return this.tables.has(program) ? { kind: 'text', text: 'nat\n' } : { kind: 'absent' };
  }
}
