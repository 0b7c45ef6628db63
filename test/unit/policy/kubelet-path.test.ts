import t from 'tap';
import { kubeletPath } from '../../../lib/policy/kubelet-path.ts';

t.test('the path that the kubelet asks for', async (t) => {
  // What Go's net/url and the kubelet's own way of using it made of each (k8s.io/kubernetes 1.36, pkg/probe/http).
  const rows: readonly (readonly [given: string, asked: string | undefined])[] = [
    ['', '/'],
    ['/', '/'],
    ['healthz', '/healthz'],
    ['/healthz?full=1', '/healthz'],
    ['/healthz#top', '/healthz'],
    ['?x=1', '/'],
    ['/a b', '/a%20b'],
    ['a b', '/a%20b'],
    ['/a%62', '/a%62'],
    ['/a%2fb', '/a%2fb'],
    ['/a b%2fc', '/a%20b/c'],
    ['/é', '/%C3%A9'],
    ['/你', '/%E4%BD%A0'],
    ['/a%', '/a%25'],
    ['/a%zz?b', '/a%25zz%3Fb'],
    ['/"<>\\^`{|}', '/%22%3C%3E%5C%5E%60%7B%7C%7D'],
    ["/!'()*[x]", "/!'()*[x]"],
    ['/a:b', '/a:b'],
    ['http://web', '/'],
    ['http://web:80/x?y', '/x'],
    ['//web/x', undefined],
    ['web:x', undefined],
  ];
  for (const [given, asked] of rows) t.equal(kubeletPath(given), asked, JSON.stringify(given));
});
