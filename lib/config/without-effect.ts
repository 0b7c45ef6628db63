import type { ConfigFault, VariableName, VariableReader } from './variables.ts';

/** Warnings about variables that were set, and that nothing asks for as the others are. */
export function withoutEffect(
  reader: VariableReader,
  { identity, inboundListen, decisions }: Readonly<Record<'identity' | 'inboundListen' | 'decisions', object | null>>,
): readonly ConfigFault[] {
  const rows: readonly (readonly [name: VariableName, isUsed: boolean, why: string, hint: string])[] = [
    [
      'SALLYPORT_IDENTITY_NAME',
      identity !== null,
      'there is no identity, so that no TLS ends here',
      'set SALLYPORT_IDENTITY_CERT, SALLYPORT_IDENTITY_KEY and SALLYPORT_IDENTITY_TRUST_ANCHORS, or leave it out',
    ],
    [
      'SALLYPORT_APP_HOST',
      inboundListen !== null,
      'no connections are redirected here, and SALLYPORT_INBOUND_PORTS names the apps of its ports',
      'set SALLYPORT_INBOUND_LISTEN, or leave it out',
    ],
    [
      'SALLYPORT_DECISIONS_FILE',
      decisions !== null,
      'SALLYPORT_DECISIONS is off',
      'set SALLYPORT_DECISIONS=refused or all, or leave it out',
    ],
  ];
  return rows
    .filter(([name, isUsed]) => !isUsed && reader.isSet(name))
    .map(([variable, , why, hint]) => ({ variable, code: 'without-effect', message: `has no effect: ${why}`, hint }));
}
