import type { ConnectionFacts } from '../proxy/connection-facts.ts';
import {
  type AccessRecord,
  type ByteCounter,
  type Recorder,
  type StrayReason,
  strayReasons,
  type TransportScope,
} from '../proxy/recorder.ts';
import { CandidateCounts } from './candidate-counts.ts';
import { ClientLines } from './client-lines.ts';
import { Connection, type Shared, Views } from './connection-scope.ts';
import { DecisionLog } from './decision-log.ts';
import { DecisionMetrics } from './decision-metrics.ts';
import type { DecisionRecords } from './decision-records.ts';
import { FaultLog } from './fault-log.ts';
import type { Families } from './figures.ts';
import { HandshakeLog } from './handshake-log.ts';
import { LabelStore } from './labels.ts';
import { LimitMetrics } from './limit-metrics.ts';
import { type LineGate, openGate } from './line-gate.ts';
import { LineRules } from './line-rules.ts';
import type { CodedLogger } from './log.ts';
import { pauseMetrics } from './pause-metrics.ts';
import { RequestMetrics } from './request-metrics.ts';
import { Cell, constantGroup, type LabelGroup } from './series.ts';
import { TransportMetrics, type TransportSeries } from './transport-metrics.ts';

export interface RecordingOptions {
  readonly log: CodedLogger;
  /** From access-log.ts; null when the access log is off. */
  readonly accessLog: ((facts: ConnectionFacts, record: AccessRecord) => void) | null;
  /** What keeps the record of decisions, with what makes a connection that is recorded; left out where there is none. */
  readonly decisions?: DecisionRecording | undefined;
  /** Of several threads that write one log; left out by one that writes alone. */
  readonly gate?: LineGate | undefined;
  /** Milliseconds from which a request is slow; left out: none is. */
  readonly slowMs?: number | undefined;
  /** Of the admin server; left out where there is none. */
  readonly adminPort?: number | undefined;
  /** Left out: the default ones. */
  readonly lineRules?: LineRules | undefined;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

/** Loaded only where decisions are recorded. */
export interface DecisionRecording {
  readonly records: DecisionRecords;
  readonly scope: new (shared: Shared, facts: ConnectionFacts, records: DecisionRecords) => Connection;
}

/** What one thread's data plane records. */
export interface Recording {
  readonly recorder: Recorder;
  /** The way to the log for what clients or the app cause. */
  readonly lines: ClientLines;
  /** Of this thread's lines, or of those of other threads, where it adds up what they have counted. */
  readonly droppedLines: Cell;
  /** Records of decisions that were dropped. */
  readonly recordsLost: Cell;
  /** The label group of this thread for one of another. */
  adopt(group: Pick<LabelGroup, 'bound' | 'pairs'>): LabelGroup;
  /** Counts what a candidate policy decides; asked for only where there is one, and once. */
  candidateCounts(): CandidateCounts;
  /** Forgets what has been idle for ten minutes. */
  expireIdle(): void;
}

export function createRecording(
  families: Families,
  {
    log,
    accessLog,
    decisions,
    gate = openGate,
    lineRules = new LineRules(),
    slowMs = Number.POSITIVE_INFINITY,
    adminPort,
    now,
  }: RecordingOptions,
): Recording {
  const labels = new LabelStore();
  const leftOut = families
    .counter('sallyport_log_lines_left_out_total', 'Log lines beyond the rate of their cause.')
    .at();
  const onLeftOut = () => void leftOut.value++;
  const lines = new ClientLines({ log, gate, rules: lineRules, nowMs: now, onLeftOut });
  const shared: Shared = {
    labels,
    decisions: new DecisionMetrics(families),
    requests: new RequestMetrics(families),
    transport: new TransportMetrics(families),
    log: new DecisionLog(lines, adminPort),
    views: new Views(),
    inbound: constantGroup({ direction: 'inbound' }),
    source: constantGroup({ direction: 'inbound', peer: 'src' }),
    now,
    slowMs,
  };
  const destination = constantGroup({ direction: 'inbound', peer: 'dst' });
  const limits = new LimitMetrics(families, lines);
  const handshakes = new HandshakeLog(families, lines);
  const faults = new FaultLog(lines, families);
  const strays = strayCells(families);

  const recordCells = decisionRecordCells(families);
  if (decisions !== undefined) decisions.records.cells = recordCells;

  pauseMetrics(families);
  let appSeries: TransportSeries | null = null;
  const toApp = (): TransportSeries => {
    if (appSeries === null || appSeries.retired) appSeries = shared.transport.series(destination, labels.loopback);
    return appSeries;
  };
  const recorder: Recorder = {
    connection:
      decisions === undefined
        ? (facts) => new Connection(shared, facts)
        : (facts) => new decisions.scope(shared, facts, decisions.records),
    networkRefused: (policy, refusal, reasons) => {
      const groups = [
        labels.target(refusal, policy),
        labels.networkPolicy(refusal.policies),
        labels.refused[refusal.connection],
      ];
      shared.decisions.networkRefused.at(...groups).value++;
      shared.log.networkRefused(refusal, reasons);
      decisions?.records.networkRefused(policy, refusal, reasons);
    },
    handshakeFailed: (client, serverName, failure) => {
      shared.decisions.tcpError('i/o', labels.target(client, null)).value++;
      handshakes.failed(client, serverName, failure);
    },
    helloNotForUs: (client, serverName, ours, outcome) => handshakes.notForUs(client, serverName, ours, outcome),
    otherHttp: (client, policy, spoken) => handshakes.otherHttp(client, policy, spoken),
    notRecognized: (client, policy, seconds) => handshakes.notRecognized(client, policy, seconds),
    limitReached: (limit, client) => limits.reached(limit, client?.text ?? null),
    strayed: (reason) => void strays[reason].value++,
    internalFault: (fault) => faults.record(fault),
    openDestination: (bytes: ByteCounter): TransportScope => toApp().add(bytes),
    access: accessLog,
  };
  return {
    recorder,
    lines,
    recordsLost: recordCells.lost,
    droppedLines: families.series('dropped lines', (pairs) => new Cell(pairs)).at(),
    adopt: (group) => labels.adopt(group),
    candidateCounts: () => new CandidateCounts(families, labels),
    expireIdle() {
      const nowMs = now();
      shared.requests.expireIdle(nowMs);
      shared.transport.expireIdle(nowMs);
    },
  };
}

/** All from the start, at zero, so that a rate over the first is right. */
function strayCells(families: Families): Readonly<Record<StrayReason, Cell>> {
  const family = families.counter(
    'sallyport_redirect_closed_total',
    'Redirected connections closed unread because they lead nowhere, by reason.',
  );
  const cells = strayReasons.map((reason) => [reason, family.at(constantGroup({ reason }))]);
  return Object.fromEntries(cells) as Record<StrayReason, Cell>;
}

function decisionRecordCells(families: Families): { readonly made: Cell; readonly lost: Cell } {
  const made = families.counter('sallyport_decision_records_total', 'Decisions recorded, those dropped included.');
  const lost = families.counter(
    'sallyport_decision_records_dropped_total',
    'Records of decisions dropped: the disk could not keep up, or there were too many different ones.',
  );
  return { made: made.at(), lost: lost.at() };
}
