import type { PodFacts } from '../policy/pod.ts';
import { parsePortRanges } from '../policy/workload.ts';
import type { PodOptions } from './options.ts';
import type { Annotations, TemplateFault } from './settings.ts';
import { isRedirected } from './sidecar.ts';

/** Ports that the pod declares, and that nobody reaches before a Server permits it. */
export function closedPorts(
  { containerPorts }: Pick<PodFacts, 'containerPorts'>,
  options: PodOptions,
): readonly number[] {
  if (!isRedirected(options) || options['default-inbound-policy'] !== 'deny') return [];
  return [...containerPorts].filter((port) => !isSkipped(port, options)).sort((a, b) => a - b);
}

function isSkipped(port: number, options: PodOptions): boolean {
  const { ranges } = parsePortRanges(options['skip-inbound-ports'] ?? '');
  return ranges.some(({ first, last }) => first <= port && port <= last);
}

/** What becomes of the pod's own annotations for Prometheus, which ours are not put beside. */
export function scrapeDoubts(own: Annotations, options: PodOptions): readonly TemplateFault[] {
  const port = own['prometheus.io/port'];
  const admin = options['admin-port'];
  if (port === undefined || String(own['prometheus.io/scrape']) === 'false' || String(port) === String(admin))
    return [];
  const closes =
    isRedirected(options) && options['default-inbound-policy'] === 'deny' && !isSkipped(Number(port), options);
  const fate = closes
    ? `port ${String(port)}, which "deny" closes until a Server permits the scraper`
    : `port ${String(port)}`;
  const message = `Prometheus is told to scrape ${fate}; Sallyport's own metrics, on port ${admin}, are not scraped`;
  const hint =
    'Permit the scraper by a Server for that port, and scrape Sallyport by a PodMonitor (--print-pod-monitor).';
  return [
    { severity: 'warning', code: 'scrape', path: ['metadata', 'annotations', 'prometheus.io/port'], message, hint },
  ];
}
