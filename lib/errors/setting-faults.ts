import { type FaultRow, faultsOf } from './fault-row.ts';

const fault = faultsOf('variable');

/** Values of variables, and of flags, which are read alike; and what variables lack of one another. */
export const settingFaults = {
  'bad-duration': fault(
    'A time is no number with a unit, or longer than 24 days.',
    'Write a number with its unit: 500ms, 10s, 2m or 1h.',
  ),
  'bad-count': fault(
    'A number is not whole, or out of its range.',
    'Write a whole number in the range that the message names.',
  ),
  'too-many-workers': fault(
    'More workers were asked for than there are cores for the process; there are as many as cores. A warning.',
    'Set SALLYPORT_WORKERS to no more than the cores that it may use, or leave it out.',
  ),
  'bad-size': fault(
    'A size is no number of bytes, or out of its range.',
    'Write bytes, or a number with its unit: 64KiB, 256MiB, 1GiB.',
  ),
  'bad-boolean': fault('A switch is neither true nor false.', 'Write true or false.'),
  'bad-choice': fault('A word is none of those that are known.', 'Write one of the words that the message lists.'),
  'bad-network': fault(
    'A network is neither a CIDR nor an address, or one that holds no client.',
    'Write a network such as 10.0.0.0/8 or fd00::/8, or one address.',
  ),
  'bad-address': fault('An address is no IP address.', 'Write addresses such as 10.1.2.3 or fd00::7.'),
  'bad-port': fault('A port is no number from 1 to 65535.', 'Write 1 to 65535.'),
  'bad-ports': fault(
    'A list of ports holds what is neither a port nor an ascending range of them.',
    'Write ports and ranges, such as 25,9000-9100.',
  ),
  'reserved-port': fault(
    'The port at which redirected connections arrive is among those that are left alone.',
    'Take it from the list, or choose another port for redirected connections.',
  ),
  'bad-listener': fault(
    'An address to listen on is none.',
    'Write host:port, [v6]:port or :port for every address; off where that is possible.',
  ),
  'bad-inbound-port': fault(
    'An explicit listener does not name a port and the address of an application.',
    'Write port=host:port, such as 8080=127.0.0.1:3000, or [addr]:port=host:port.',
  ),
  'bad-host': fault('A host is neither a name nor an address.', 'Write a host name or an address, without a port.'),
  'bad-name': fault('A name is no DNS name.', 'Use lower-case letters, digits, "-" and ".".'),
  'bad-image': fault('A reference names no image.', 'Write it as for a container: registry/name:tag.'),
  'bad-amount': fault('An amount of a resource is none.', 'Write 100m or 0.5 of CPU, 128Mi of memory, or none.'),
  'bad-text': fault(
    'A value of inject is empty, too long, no string, or has a line break in it.',
    'Write it in one line, at most 4096 characters.',
  ),
  'bad-label': fault(
    'An item is no label, or none that a Pod can have.',
    'Write labels as key=value, comma-separated, without quotes.',
  ),
  'empty-list': fault('A list has commas, and nothing between them.', 'Write its items, or leave the variable out.'),
  'bad-labels-file': fault(
    'A line of the file of labels is not as the downward API writes it, or no label that a Pod can have.',
    'Mount metadata.labels by the downward API, and keep the file as is; or correct the line.',
  ),
  'labels-emptied': fault(
    'A file that held the labels of the pod holds none, which is no way to remove them.',
    'Write them again, to a new file that is then renamed over it; restart to do without any.',
  ),
  'bad-named-port': fault('An item is no named port.', 'Write ports as name=number, such as http=8080.'),
  'bad-probe': fault(
    'An item is no probe.',
    'Write probes as 8080/healthz, https:8443/healthz, grpc:9000, tcp:5432 or hook:8080/prestop.',
  ),
  'setting-unreadable': fault(
    'A file that a variable names cannot be read.',
    'Check the path and its permissions; it must be a regular file.',
  ),
  'identity-incomplete': fault(
    'Of certificate, key and trust anchors some are set and some are not.',
    'Set all three, or none.',
  ),
  'listeners-clash': fault('Two listeners have the same port.', 'Choose another port for one of them.'),
  'own-app': fault(
    'The address of an application is one at which Sallyport itself listens.',
    'Let the application listen on another port, and name that one.',
  ),
  'read-as-policy': fault(
    'A candidate policy, or the file of decisions, stands where the policy is read from.',
    'Keep it in a folder of its own.',
  ),
  'beyond-machine': fault(
    'A limit was set that the machine cannot hold: its descriptors or its memory give out before. A warning.',
    'Raise what the message names, or set the limit lower.',
  ),
  'short-memory': fault(
    'The memory that the container may use leaves next to nothing beside the program. A warning.',
    'Allow it 128Mi, and 36Mi for each further worker.',
  ),
  'without-effect': fault(
    'A variable was set that counts only together with another one, which is not set. A warning.',
    'Set the other one too, or leave it out.',
  ),
  'unknown-variable': fault(
    'A variable begins like ours, and is none; a warning.',
    'Correct its spelling, or remove it.',
  ),
} as const satisfies Readonly<Record<string, FaultRow>>;
