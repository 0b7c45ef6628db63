import type { Complaint } from '../errors/complaint.ts';
import type { FaultCode } from '../errors/faults.ts';
import type { Family } from './exemptions.ts';
import { legacyTables } from './kernel.ts';
import type { Finished, Machine } from './machine.ts';
import { RedirectError } from './redirect-error.ts';
import { type OwnRules, ownRulesIn } from './rules.ts';

/** The two interfaces of the kernel to which iptables has been written; a host usually has the programs of both. */
export type BackendName = 'nft' | 'legacy';

/** One pair of programs, save and restore, for each family. */
export class Backend {
  readonly name: BackendName;
  readonly #machine: Machine;
  readonly #infix: string;
  readonly #mayHold: ReadonlySet<Family>;

  private constructor(machine: Machine, name: BackendName, infix: string) {
    this.#machine = machine;
    this.name = name;
    this.#infix = infix;
    const families: readonly Family[] = [4, 6];
    this.#mayHold = new Set(
      families.filter((family) => name === 'nft' || legacyTables(machine, family).includes('nat')),
    );
  }

  /**
   * The programs of that name, or the unnamed ones where these are of the same kind; null where neither is installed.
   * Before iptables 1.8 there was one kind only, and `--version` did not say which.
   *
   * @throws RedirectError where it cannot be known whether there are rules of that kind.
   */
  static find(machine: Machine, name: BackendName): Backend | null {
    const version = (infix: string): Finished => machine.run(`iptables${infix}-restore`, ['--version'], '');
    if (version(`-${name}`).status === 0) return new Backend(machine, name, `-${name}`);
    const plain = version('');
    if (plain.status !== 0) return null;
    const kind: BackendName = plain.stdout.includes('nf_tables') ? 'nft' : 'legacy';
    return kind === name ? new Backend(machine, name, '') : null;
  }

  /** What is ours there. @throws RedirectError when the table cannot be read. */
  ownRules(family: Family): OwnRules {
    const { status, stdout, stderr } = this.#machine.run(this.#program(family, 'save'), ['-t', 'nat'], '');
    if (status !== 0) throw this.#refused(family, 'save', stderr);
    return ownRulesIn(stdout);
  }

  /** @throws RedirectError when it is refused; nothing has then been changed. */
  restore(family: Family, input: string): void {
    // Without it another user of the lock (kube-proxy on the node's network, say) would make this fail at once.
    const args = ['--wait', '10', '--noflush'];
    const { status, stderr } = this.#machine.run(this.#program(family, 'restore'), args, input);
    if (status !== 0) throw this.#refused(family, 'restore', stderr);
  }

  /**
   * Whether there could be rules at all when it was found. To ask the legacy programs is to load their modules and to
   * hook them into this network for good, so the kernel's own list is read first.
   */
  mayHoldRules(family: Family): boolean {
    return this.#mayHold.has(family);
  }

  #program(family: Family, verb: 'save' | 'restore'): string {
    return `${family === 4 ? 'iptables' : 'ip6tables'}${this.#infix}-${verb}`;
  }

  #refused(family: Family, verb: 'save' | 'restore', stderr: string): RedirectError {
    const said = stderr.trim().split('\n').slice(0, 3).join('; ');
    const program = this.#program(family, verb);
    const { code, hint } = reasonOf(said, this.name);
    return new RedirectError(code, `${program}: ${said === '' ? 'failed and did not say why' : said}`, hint);
  }
}

function reasonOf(said: string, name: BackendName): Omit<Complaint, 'message'> & { readonly code: FaultCode } {
  if (said === 'is not installed') {
    return { code: 'no-iptables', hint: 'install the package iptables whole: it has the programs of both families' };
  }
  if (/lock file|xtables\.lock/.test(said)) {
    const hint = 'the legacy programs need a writable /run: mount an emptyDir there, or use --backend nft';
    return { code: 'xtables-lock', hint };
  }
  if (/must be root|Permission denied|Operation not permitted/.test(said)) {
    const hint = `run it as root with the capability NET_ADMIN${name === 'legacy' ? ' and NET_RAW' : ''}`;
    return { code: 'no-net-admin', hint };
  }
  if (/initialize table|Could not process rule|No such file|does not exist|No chain\/target\/match/.test(said)) {
    const hint =
      name === 'legacy'
        ? 'the kernel lacks the nat table of iptables: load ip_tables and iptable_nat on the node, or use --backend nft'
        : 'the kernel lacks a part of nf_tables: load nft_compat, nf_nat and xt_REDIRECT on the node, or use --backend legacy';
    return { code: 'kernel-modules', hint };
  }
  return { code: 'iptables-refused', hint: '' };
}
