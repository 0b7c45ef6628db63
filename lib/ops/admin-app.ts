/**
 * The admin server as an application: the data plane terminates its connections, authorizes its requests by the
 * inbound policy of its port and hands over what was permitted. No sockets here.
 */
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import {
  type AdminCaller,
  adminHeader,
  decisionsHeader,
  decisionsPath,
  foreignCaller,
  isDeliberate,
} from './admin-callers.ts';
import { liveResponse, type ProbeResponse, readyResponse } from './probe-responses.ts';
import type { ReadyState } from './readiness.ts';
import { sharedAnswer } from './shared-answer.ts';

export interface AdminRequest extends AdminCaller {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: string;
  /** The whole body; rejects when it is longer than `maxBodyBytes` or breaks off. */
  body(maxBodyBytes: number): Promise<Buffer>;
}

export interface AdminResponse {
  readonly status: number;
  /** Without framing: the one who carries the response adds `content-length`. */
  readonly headers: readonly (readonly [string, string])[];
  /** For HEAD that of GET: the carrier declares its length and leaves it out (RFC 9110 section 9.3.2). */
  readonly body: string | Buffer;
}

export interface AdminApp {
  /** Never rejects: a failure is a 500 without details. */
  handle(request: AdminRequest): Promise<AdminResponse>;
}

export interface AdminOptions {
  ready(): ReadyState;
  /** False: to be started afresh. */
  live(): boolean;
  metrics(): Promise<{ readonly contentType: string; readonly body: string }>;
  /** The effective policy; printed as JSON. */
  policy(): unknown;
  /** How the candidate policy fares: printed as JSON, or as text for people. Null where there is none. */
  readonly candidate?: { page(): Promise<unknown>; text(): Promise<string> } | null;
  /** What was decided, as lines of the record of `version`; `lines` null where nothing is recorded. */
  readonly decisions: { readonly version: number; readonly lines: (() => Promise<string>) | null };
  readonly log: {
    level(): string;
    /** False when the text is no level. */
    setLevel(text: string): boolean;
  };
  /** Begins the drain; does not wait for it. */
  shutdown(): void;
  /** Called with what went wrong inside a handler. */
  readonly failed?: (path: string, error: unknown) => void;
}

interface Resource {
  /** GET implies HEAD. */
  readonly methods: readonly ('GET' | 'PUT' | 'POST')[];
  /** Whether only callers on this machine may ask, whatever policy says (see admin-callers.ts). */
  readonly loopbackOnly: boolean;
  handle(request: AdminRequest): AdminResponse | Promise<AdminResponse>;
}

/** Of a request's content; more is refused. */
export const maxBodyBytes = 4096;

const textPlain = 'text/plain';
const textType = `${textPlain}; charset=utf-8`;
const jsonType = 'application/json';
const linesType = 'application/jsonl';
const gzipped = promisify(gzip);

export function createAdminApp(options: AdminOptions): AdminApp {
  // A Map, not an object: paths come from clients.
  const rendered = sharedAnswer(() => rendering(options));
  const policy = sharedAnswer(() => policyDocument(options));
  const fares = candidateAnswers(options.candidate ?? null);
  const decisions = decisionsAnswer(options.decisions);
  const resources = new Map<string, Resource>([
    ['/live', { methods: ['GET'], loopbackOnly: false, handle: () => probe(liveResponse(options.live())) }],
    ['/ready', { methods: ['GET'], loopbackOnly: false, handle: () => probe(readyResponse(options.ready())) }],
    ['/metrics', { methods: ['GET'], loopbackOnly: false, handle: (request) => metrics(rendered, request) }],
    ['/policy', { methods: ['GET'], loopbackOnly: true, handle: policy }],
    ['/candidate', { methods: ['GET'], loopbackOnly: true, handle: (request) => candidate(fares, request) }],
    [decisionsPath, { methods: ['GET'], loopbackOnly: true, handle: decisions }],
    ['/log-level', { methods: ['GET', 'PUT'], loopbackOnly: true, handle: (request) => logLevel(options, request) }],
    ['/shutdown', { methods: ['POST'], loopbackOnly: true, handle: () => shutdown(options) }],
  ]);
  return {
    async handle(request) {
      const resource = resources.get(request.path);
      if (resource === undefined) return text(404, 'not found\n');
      // Before the method: who may not ask learns nothing about what could be asked.
      const foreign = resource.loopbackOnly ? foreignCaller(request) : null;
      if (foreign !== null) return text(403, `${foreign}\n`);
      if (!allows(resource, request.method)) {
        return withHeader(text(405, 'method not allowed\n'), 'allow', allowed(resource));
      }
      if (changes(request.method) && !isDeliberate(request)) {
        return text(403, `Changes are only permitted with the header ${adminHeader}: 1\n`);
      }
      return answer(resource, request, options);
    },
  };
}

async function answer(resource: Resource, request: AdminRequest, options: AdminOptions): Promise<AdminResponse> {
  try {
    return await resource.handle(request);
  } catch (error) {
    options.failed?.(request.path, error);
    return text(500, 'internal error\n');
  }
}

function changes(method: string): boolean {
  return method === 'PUT' || method === 'POST';
}

function allows(resource: Resource, method: string): boolean {
  const effective = method === 'HEAD' ? 'GET' : method;
  return resource.methods.some((known) => known === effective);
}

function allowed(resource: Resource): string {
  return resource.methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ');
}

function text(status: number, body: string, contentType = textType): AdminResponse {
  return { status, headers: [['content-type', contentType]], body };
}

function withHeader(response: AdminResponse, name: string, value: string): AdminResponse {
  return { ...response, headers: [...response.headers, [name, value]] };
}

function probe({ status, body }: ProbeResponse): AdminResponse {
  return text(status, body);
}

interface Rendering {
  readonly contentType: string;
  /** Bytes, not text: hundreds may be given the same answer at once. */
  readonly body: Buffer;
  compressed(): Promise<Buffer>;
}

async function rendering(options: AdminOptions): Promise<Rendering> {
  const { contentType, body: text } = await options.metrics();
  const body = Buffer.from(text);
  let compressed: Promise<Buffer> | null = null;
  return {
    contentType,
    body,
    compressed() {
      compressed ??= gzipped(body);
      return compressed;
    },
  };
}

async function metrics(rendered: () => Promise<Rendering>, request: AdminRequest): Promise<AdminResponse> {
  const { contentType, body, compressed } = await rendered();
  if (!acceptsGzip(request.header('accept-encoding'))) {
    const headers: [string, string][] = [
      ['content-type', contentType],
      ['vary', 'accept-encoding'],
    ];
    return { status: 200, headers, body };
  }
  const headers: [string, string][] = [
    ['content-type', contentType],
    ['content-encoding', 'gzip'],
    ['vary', 'accept-encoding'],
  ];
  return { status: 200, headers, body: await compressed() };
}

/** Whether gzip is named with a weight above zero, or `*` is and gzip is not refused (RFC 9110 section 12.5.3). */
export function acceptsGzip(values: readonly string[]): boolean {
  let wildcard = false;
  for (const part of values.join(',').split(',')) {
    const [coding = '', ...parameters] = part.split(';').map((piece) => piece.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith('q='));
    const wanted = weight === undefined || Number.parseFloat(weight.slice(2)) > 0;
    if (coding === 'gzip' || coding === 'x-gzip') return wanted;
    if (coding === '*') wildcard = wanted;
  }
  return wildcard;
}

function policyDocument(options: AdminOptions): AdminResponse {
  const body = Buffer.from(`${JSON.stringify(options.policy() ?? null, null, 2)}\n`);
  return { status: 200, headers: [['content-type', jsonType]], body };
}

interface CandidateAnswers {
  json(): Promise<AdminResponse>;
  text(): Promise<AdminResponse>;
}

function candidateAnswers(candidate: AdminOptions['candidate'] | null): CandidateAnswers | null {
  if (candidate === undefined || candidate === null) return null;
  const answer = (body: string, type: string) => withHeader(text(200, body, type), 'vary', 'accept');
  return {
    json: sharedAnswer(async () => answer(`${JSON.stringify(await candidate.page(), null, 2)}\n`, jsonType)),
    text: sharedAnswer(async () => answer(await candidate.text(), textType)),
  };
}

/** JSON, unless the request asks for text alone. */
async function candidate(fares: CandidateAnswers | null, request: AdminRequest): Promise<AdminResponse> {
  if (fares === null) return text(404, 'no candidate: SALLYPORT_CANDIDATE_POLICY is not set\n');
  const accepted = request.header('accept').join();
  const wantsText = request.query === 'format=text' || (accepted.includes(textPlain) && !accepted.includes(jsonType));
  return wantsText ? fares.text() : fares.json();
}

/** Its header says of which version the lines are, and that it is Sallyport that has none. */
function decisionsAnswer({ version, lines }: AdminOptions['decisions']): () => Promise<AdminResponse> {
  const versioned = (answer: AdminResponse) => withHeader(answer, decisionsHeader, `${version}`);
  if (lines === null)
    return async () => versioned(text(404, 'no decisions are recorded: SALLYPORT_DECISIONS is off\n'));
  return sharedAnswer(async () =>
    versioned({ status: 200, headers: [['content-type', linesType]], body: Buffer.from(await lines()) }),
  );
}

async function logLevel(options: AdminOptions, request: AdminRequest): Promise<AdminResponse> {
  if (request.method !== 'PUT') return text(200, `${options.log.level()}\n`);
  let wanted: string;
  try {
    wanted = (await request.body(maxBodyBytes)).toString('utf8').trim();
  } catch {
    return text(413, `a level has at most ${maxBodyBytes} bytes\n`);
  }
  if (!options.log.setLevel(wanted)) return text(400, 'not a level: trace, debug, info, warn, error or off\n');
  return { status: 204, headers: [], body: '' };
}

function shutdown(options: AdminOptions): AdminResponse {
  options.shutdown();
  return text(200, 'shutdown\n');
}
