import t from 'tap';
import { readConfig } from '../../../lib/config/config.ts';

t.test('unknown variables are warnings with the nearest name', async (t) => {
  const read = readConfig({
    SALLYPORT_POLCY: 'x',
    SALLYPORT_WHATEVER_ELSE: 'x',
    SALLYPORT_NODE: '/usr/bin/node',
    // From a Kubernetes Service that is called sallyport.
    SALLYPORT_SERVICE_HOST: '10.0.0.1',
    SALLYPORT_SERVICE_PORT_HTTP: '80',
    SALLYPORT_PORT: 'tcp://10.0.0.1:80',
    SALLYPORT_PORT_80_TCP: 'tcp://10.0.0.1:80',
    SALLYPORT_PORT_80_TCP_ADDR: '10.0.0.1',
    SALLYPORT_REQUIRE_IDENTITY_PORT: '8080',
  });
  t.same(read.ok && read.config.warnings.map(({ variable, hint }) => [variable, hint]), [
    ['SALLYPORT_POLCY', 'did you mean SALLYPORT_POLICY?'],
    ['SALLYPORT_WHATEVER_ELSE', 'remove it'],
    ['SALLYPORT_REQUIRE_IDENTITY_PORT', 'did you mean SALLYPORT_REQUIRE_IDENTITY_PORTS?'],
  ]);
});
