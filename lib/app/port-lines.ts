import type { Config } from '../config/config.ts';
import type { PolicyIndex } from '../policy/compile/compile.ts';
import type { Workload } from '../policy/workload.ts';

interface Said {
  info(fields: object, message: string): void;
}

type ListenVariable = 'SALLYPORT_INBOUND_PORTS' | 'SALLYPORT_ADMIN_LISTEN' | 'SALLYPORT_INBOUND_LISTEN';

/** A pod may declare any number of ports; of more than this a change says only how many. */
const mostLines = 32;

/** Says of each port, once and whenever it changes, which Server has it, or that none does and what holds then. */
export class PortLines {
  readonly #config: Config;
  readonly #log: Said;
  #said = new Map<number, string>();

  constructor(config: Config, log: Said) {
    this.#config = config;
    this.#log = log;
  }

  /** After each swap of the policy in force. */
  tell(index: PolicyIndex, workload: Workload): void {
    const before = this.#said;
    this.#said = new Map();
    let lines = 0;
    for (const [port, listener] of this.#ports(index, workload)) {
      const { server, protocol, document } = index.port(port);
      const said = { port, listener, server: { ...server, ...document }, protocol };
      const text = JSON.stringify(said);
      this.#said.set(port, text);
      if (before.get(port) === text || ++lines > mostLines) continue;
      this.#log.info(said, document === null ? `No Server: default policy ${server.name} holds` : 'Server in force');
    }
    if (lines > mostLines) this.#log.info({ ports: lines - mostLines }, 'More ports have changed; /policy shows them');
  }

  /** Through the redirect any port may be asked for: those count that somebody names. */
  #ports(index: PolicyIndex, workload: Workload): Map<number, ListenVariable> {
    const { inboundListen, inboundPorts, adminListen } = this.#config;
    const ports = new Map<number, ListenVariable>();
    if (inboundListen !== null) {
      const { containerPorts, namedPorts, probes } = workload;
      const servers = index.servers.map(({ port }) => port);
      const named = [...containerPorts, ...[...namedPorts.values()].flat(), ...probes.keys(), ...servers];
      for (const port of named.sort((a, b) => a - b)) ports.set(port, 'SALLYPORT_INBOUND_LISTEN');
    }
    for (const { policyPort } of inboundPorts) ports.set(policyPort, 'SALLYPORT_INBOUND_PORTS');
    if (adminListen !== null) ports.set(adminListen.port, 'SALLYPORT_ADMIN_LISTEN');
    return ports;
  }
}
