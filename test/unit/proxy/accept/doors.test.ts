import { connect } from 'node:net';
import t from 'tap';
import { Doors } from '../../../../lib/proxy/accept/doors.ts';
import { OwnEndpoints } from '../../../../lib/proxy/accept/own-endpoints.ts';
import type { ConnectionServices } from '../../../../lib/proxy/connection-services.ts';

t.test('a door that is being opened when all are closed stays closed', async (t) => {
  for (const order of ['before', 'during']) {
    const doors = new Doors({} as ConnectionServices, new OwnEndpoints(() => [], false), () => t.fail('no error'));
    if (order === 'before') await doors.close();
    const opening = doors.open('SALLYPORT_INBOUND_PORTS', { host: '127.0.0.1', port: 0 }, () => null);
    if (order === 'during') await doors.close();
    const { address } = await opening;
    const reached = await new Promise<boolean>((resolve) => {
      const socket = connect(address.port, '127.0.0.1', () => {
        socket.destroy();
        resolve(true);
      });
      socket.once('error', () => resolve(false));
    });
    t.notOk(reached, order);
    await doors.close();
  }
});
