import t from 'tap';
import { closedServer, http1Outcome, http1Request, openRoute } from '../../support/attacked-routes.ts';
import { type Fields, http2Outcome, requestFields } from '../../support/http2-frames.ts';
import { openAdmin, openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { startWitness } from '../../support/witness.ts';

/** Header and host rules: only `x-tier: gold`, or the host `shop.example`, opens anything. */
const documents = (web: number, hosts: number, many: number, open: number): string => `${closedServer('web', web)}---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: gold, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules:
    - matches: [{headers: [{name: x-tier, value: gold}]}]
    - matches: [{headers: [{name: constructor, value: gold}]}]
    - matches: [{queryParams: [{name: __proto__, value: gold}]}]
${openRoute('gold')}${closedServer('hosts', hosts)}---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: one-host, namespace: shop}
spec:
  hostnames: [shop.example]
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: hosts}]
${openRoute('one-host')}${closedServer('many', many)}---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: many-hosts, namespace: shop}
spec:
  hostnames: [${Array.from({ length: 1_000 }, (_, i) => `h${i}.example`).join(', ')}, shop.example]
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: many}]
${openRoute('many-hosts')}${openServer('open', open)}${openAdmin}`;

interface Row {
  readonly title: string;
  readonly target?: string;
  readonly fields: Fields;
  readonly http1: string;
  /** As `http1` where absent; null where HTTP/2 has no such thing. */
  readonly http2?: string | null;
}

const values: readonly Row[] = [
  { title: 'the value', fields: [['x-tier', 'gold']], http1: '200' },
  { title: 'the name in another case', fields: [['X-TIER', 'gold']], http1: '200', http2: null },
  { title: 'another case of the value', fields: [['x-tier', 'Gold']], http1: '404' },
  { title: 'a list that holds it (CVE-2026-26308)', fields: [['x-tier', 'iron, gold']], http1: '404' },
  { title: 'bytes beyond ASCII (CVE-2026-73552, CVE-2023-27488)', fields: [['x-tier', 'gold\xc3\xa9']], http1: '404' },
  { title: 'bytes that are no UTF-8', fields: [['x-tier', '\xff\xfe']], http1: '404' },
  { title: 'a no-break space around it', fields: [['x-tier', '\xa0gold']], http1: '404' },
  {
    title: 'such bytes in another header',
    fields: [
      ['x-name', '\xff'],
      ['x-tier', 'gold'],
    ],
    http1: '200',
  },
  {
    title: 'bytes beyond ASCII in a name',
    fields: [['x-ti\xe9r', 'gold']],
    http1: '400',
    http2: 'reset',
  },
  { title: 'no value', fields: [['x-tier', '']], http1: '404' },
  // To CGI, WSGI and Rack these are the same name (RFC 3875 section 4.1.18).
  { title: 'underscores', fields: [['x_tier', 'gold']], http1: '400' },
  { title: 'other characters that CGI folds', fields: [['x+tier', 'gold']], http1: '400' },
  {
    title: 'one that folds onto it, beside it',
    fields: [
      ['x-tier', 'gold'],
      ['x|tier', 'iron'],
    ],
    http1: '400',
  },
  { title: 'an odd name that is nobody else', fields: [['x_other', 'gold']], http1: '404' },
  {
    title: 'named as an own property of Object.prototype (CVE-2026-21710)',
    fields: [['__proto__', 'gold']],
    http1: '404',
  },
  { title: 'constructor', fields: [['constructor', 'iron']], http1: '404' },
  { title: 'constructor, as the rule wants it', fields: [['constructor', 'gold']], http1: '200' },
  { title: 'a query named __proto__', target: '/?__proto__=gold', fields: [], http1: '200' },
  { title: 'a query named __proto__, otherwise', target: '/?__proto__[x]=gold', fields: [], http1: '404' },
];

const hosts: readonly (readonly [host: string, status: string, source: string])[] = [
  ['shop.example', '200', 'as written'],
  ['SHOP.Example', '200', 'CVE-2021-39155, CVE-2026-27588: case'],
  ['shop.example.', '200', 'a trailing dot'],
  ['shop.example:8080', '200', 'a port'],
  ['Shop.Example.:80', '200', 'all of it'],
  ['xshop.example', '404', 'a longer name'],
  ['shop.example.evil', '404', 'a longer name'],
  ['shop.example:8080:9', '400', 'two ports'],
  ['user@shop.example', '400', 'user information'],
  ['shop.example,evil.example', '400', 'a list'],
  ['shop.example/evil', '400', 'a path'],
  ['shop.example?x', '400', 'a query'],
  ['shop.example evil', '400', 'a space'],
  ['[::1', '400', 'half an address'],
  ['constructor', '404', 'CVE-2026-21710'],
  ['__proto__', '404', 'CVE-2026-21710'],
];

/** Names on the prototype of every object that is not careful. */
const hostile = ['__proto__', 'constructor', 'prototype', 'hasOwnProperty', 'toString', 'valueOf'];

t.setTimeout(900_000);

/** Both engines of HTTP/1. */
for (const fast of [true, false]) {
  t.test(fast ? 'fast lane' : 'library lane', async (t) => {
    const env = { SALLYPORT_HTTP1_FAST_LANE: String(fast) };
    const [web = 0, oneHost = 0, manyHosts = 0, open = 0] = await freePorts(4);
    const app = await startWitness(t);
    const sallyport = await startSallyport(t, {
      env: {
        ...policyEnvironment(t.testdir(), documents(web, oneHost, manyHosts, open)),
        SALLYPORT_INBOUND_PORTS: [web, oneHost, manyHosts, open].map((port) => `${port}=127.0.0.1:${app.port}`).join(),
        ...env,
      },
    });
    const lines = (fields: Fields): string[] => fields.map(([field, value]) => `${field}: ${value}`);

    for (const { title, target = '/', fields, http1, http2 = http1 } of values) {
      const before = app.requests.length;
      t.equal(await http1Outcome(web, http1Request(target, lines(fields))), http1, `HTTP/1: ${title}`);
      if (http2 !== null) t.equal(await http2Outcome(web, requestFields(target, fields)), http2, `HTTP/2: ${title}`);
      const permitted = [http1, http2].filter((outcome) => outcome === '200').length;
      t.equal(app.requests.length - before, permitted, 'the app saw what was permitted');
    }

    for (const [host, status, source] of hosts) {
      for (const [count, port] of [
        [1, oneHost],
        [1_001, manyHosts],
      ] as const) {
        const what = `${JSON.stringify(host)} among ${count}: ${source}`;
        t.equal(await http1Outcome(port, http1Request('/', [`Host: ${host}`])), status, `Host ${what}`);
        const second = status === '400' ? 'reset' : status;
        t.equal(await http2Outcome(port, requestFields('/', [], 'GET', host)), second, `:authority ${what}`);
        if (status === '400') continue;
        const absolute = http1Request(`http://${host}/`, ['Host: evil.example']);
        t.equal(await http1Outcome(port, absolute), status, `absolute-form ${what}`);
      }
    }

    // One request, one host (RFC 9112 3.2, RFC 9113 8.3.1).
    const before = app.requests.length;
    const two = http1Request('/', ['Host: shop.example', 'Host: evil.example']);
    t.equal(await http1Outcome(oneHost, two), '400', 'two Host lines');
    const same = http1Request('/', ['Host: shop.example', 'Host: shop.example']);
    t.equal(await http1Outcome(oneHost, same), '400', 'the same Host twice');
    t.equal(await http1Outcome(oneHost, 'GET / HTTP/1.1\r\n\r\n'), '400', 'no Host');
    const conflict = requestFields('/', [['host', 'evil.example']], 'GET', 'shop.example');
    t.equal(await http2Outcome(oneHost, conflict), 'reset', 'Host and :authority that differ');
    const reversed = requestFields('/', [['host', 'shop.example']], 'GET', 'evil.example');
    t.equal(await http2Outcome(oneHost, reversed), 'reset', 'the other way round');
    const repeated = requestFields(
      '/',
      [
        ['host', 'shop.example'],
        ['host', 'evil.example'],
      ],
      'GET',
      'shop.example',
    );
    t.equal(await http2Outcome(oneHost, repeated), 'reset', 'two host fields');
    const authorities = [
      ...requestFields('/', [], 'GET', 'shop.example').slice(0, 3),
      [':authority', 'evil.example'],
      [':path', '/'],
    ] as Fields;
    t.equal(await http2Outcome(oneHost, authorities), 'reset', 'two :authority fields');
    t.equal(app.requests.length, before, 'none of them reached the app');
    const agreeing = requestFields('/', [['host', 'SHOP.example']], 'GET', 'shop.example');
    t.equal(await http2Outcome(oneHost, agreeing), '200', 'both, agreeing');
    t.same(
      app.requests.at(-1)?.headers.filter(([field]) => field === 'host' || field === ':authority'),
      [[':authority', 'shop.example']],
    );

    for (const word of hostile) {
      const target = `/${word}?${word}=1&${word}[${word}]=2`;
      const fields: Fields = [
        [word.toLowerCase(), 'x'],
        [word.toLowerCase(), 'y'],
      ];
      t.equal(await http1Outcome(open, http1Request(target, lines(fields))), '200', `HTTP/1: ${word}`);
      t.same(app.seen(target, word.toLowerCase()), ['x', 'y']);
      t.equal(await http2Outcome(open, requestFields(target, fields)), '200', `HTTP/2: ${word}`);
      t.same(
        app.requests.at(-1)?.headers.filter(([field]) => field === word.toLowerCase()),
        fields,
      );
      const admin = http1Request(`/${word}`, lines(fields));
      t.equal(await http1Outcome(sallyport.adminPort, admin), '404', `admin: ${word}`);
      t.equal(await http1Outcome(sallyport.healthPort, admin), '404', `health: ${word}`);
      // Node's parser knows no such method: the library lane's own, or else the app's, which breaks off.
      t.equal(await http1Outcome(open, http1Request('/', [], word)), fast ? '502' : '400', `as a method: ${word}`);
    }
    t.same(app.malformed, fast ? hostile.map(() => 'HPE_INVALID_METHOD') : []);
    t.match(await sallyport.stop(), { code: 0 });
  });
}
