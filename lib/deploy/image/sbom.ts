import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A Debian package of which files are in the image. */
export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  readonly architecture: string;
}

export interface Contents {
  /** The folder of the installed package. */
  readonly installed: string;
  /** As Node says it: `v26.10.0`. */
  readonly nodeVersion: string;
  readonly debian: readonly DebianPackage[];
  readonly distribution: string;
  /** Seconds since 1970; the same files give the same bill. */
  readonly sourceDateEpoch: number;
}

interface Installed {
  readonly name?: string;
  readonly version: string;
  readonly integrity?: string;
  readonly license?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

type Packages = Readonly<Record<string, Installed>>;

interface Component {
  readonly type: 'application' | 'library' | 'platform';
  readonly 'bom-ref': string;
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly licenses?: readonly { readonly expression: string }[];
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
}

/**
 * The bill of materials of the image, CycloneDX 1.5. It is made from what is installed: `npm sbom` reads the lock file,
 * names packages for other platforms, and leaves out those that tools for development ask for as well.
 */
export function billOfMaterials({ installed, nodeVersion, debian, distribution, sourceDateEpoch }: Contents) {
  const own = readJson(join(installed, 'package.json')) as Installed & { readonly name: string };
  const { packages } = readJson(join(installed, 'node_modules/.package-lock.json')) as { readonly packages: Packages };
  const paths = Object.keys(packages).sort();
  const application = npmComponent('application', own.name, own);
  const node: Component = {
    type: 'platform',
    'bom-ref': `pkg:generic/node@${nodeVersion.slice(1)}`,
    name: 'node',
    version: nodeVersion.slice(1),
    purl: `pkg:generic/node@${nodeVersion.slice(1)}`,
    licenses: [{ expression: 'MIT' }],
  };
  const system = debian.map(({ name, version, architecture }): Component => {
    const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}&distro=${distribution}`;
    return { type: 'library', 'bom-ref': purl, name, version, purl };
  });
  const libraries = new Map(paths.map((path) => [path, npmComponent('library', nameAt(path), at(packages, path))]));
  const unique = [...new Map([...libraries.values()].map((one) => [one['bom-ref'], one])).values()];
  const refs = (path: string, one: Installed): string[] => {
    const wanted = { ...one.peerDependencies, ...one.optionalDependencies, ...one.dependencies };
    const found = Object.keys(wanted).flatMap((name) => libraries.get(resolve(packages, path, name) ?? '') ?? []);
    return [...new Set(found.map((component) => component['bom-ref']))].sort();
  };
  const edges = new Map(paths.map((path) => [libraries.get(path)?.['bom-ref'], refs(path, at(packages, path))]));
  const onSystem = [node, ...system].map((component) => component['bom-ref']);
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: {
      timestamp: new Date(sourceDateEpoch * 1000).toISOString(),
      component: application,
    },
    components: [node, ...unique, ...system],
    dependencies: [
      { ref: application['bom-ref'], dependsOn: [...refs('', own), ...onSystem] },
      ...[...edges].map(([ref, dependsOn]) => ({ ref, dependsOn })),
      ...onSystem.map((ref) => ({ ref, dependsOn: [] })),
    ],
  };
}

function npmComponent(type: 'application' | 'library', name: string, one: Installed): Component {
  // An alias (`npm:…`) is installed under one name and published under another; scanners know the latter.
  const published = one.name ?? name;
  const purl = `pkg:npm/${published.replace('@', '%40')}@${one.version}`;
  const [algorithm, digest = ''] = (one.integrity ?? '').split('-');
  return {
    type,
    'bom-ref': purl,
    name: published,
    version: one.version,
    purl,
    ...(one.license === undefined ? {} : { licenses: [{ expression: one.license }] }),
    ...(algorithm === 'sha512'
      ? { hashes: [{ alg: 'SHA-512', content: Buffer.from(digest, 'base64').toString('hex') }] }
      : {}),
  };
}

const nameAt = (path: string): string => path.split('node_modules/').at(-1) as string;

function at(packages: Packages, path: string): Installed {
  const found = packages[path];
  if (found === undefined) throw new Error(`nothing is installed at ${path}`);
  return found;
}

/** Where Node finds that package from there: the nearest node_modules upwards. Undefined: optional, and not installed. */
function resolve(packages: Packages, from: string, name: string): string | undefined {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
    const path = folder === '' ? `node_modules/${name}` : `${folder}/node_modules/${name}`;
    if (packages[path] !== undefined) return path;
    if (folder === '') return undefined;
  }
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(path, 'utf8'));
}
